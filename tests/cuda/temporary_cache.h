// An empty folder that goes away with its object.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace tilewright::test {

class TemporaryCache {
public:
    TemporaryCache() {
        std::string pattern = (std::filesystem::temp_directory_path() / "tilewright-cache-XXXXXX").string();
        if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
        folder_ = pattern;
    }
    ~TemporaryCache() {
        std::error_code error;
        std::filesystem::remove_all(folder_, error);
    }
    TemporaryCache(const TemporaryCache&) = delete;
    TemporaryCache& operator=(const TemporaryCache&) = delete;

    const std::string& folder() const { return folder_; }

private:
    std::string folder_;
};

}  // namespace tilewright::test
