// Ranks by functions of the caller.
#include <tilewright/error.h>
#include <tilewright/ranks.h>

#include <utility>

namespace tilewright {
namespace {

class RanksOfFunctions : public Ranks {
public:
    explicit RanksOfFunctions(RankFunctions functions) : functions_(std::move(functions)) {}

    int rank() const override { return functions_.rank; }
    int size() const override { return functions_.size; }
    DeviceId device() const override { return functions_.device; }
    std::string engine() const override { return functions_.engine; }
    void share(const void* own, void* all, std::int64_t bytes) override { functions_.share(own, all, bytes); }
    void* allocate(std::int64_t bytes) override { return functions_.allocate(bytes); }
    std::vector<void*> addresses() override {
        return functions_.addresses ? functions_.addresses() : std::vector<void*>{};
    }
    void all_gather(std::int64_t from, std::int64_t to, std::int64_t bytes, void* stream) override {
        functions_.all_gather(from, to, bytes, stream);
    }
    void all_to_all(std::int64_t from, std::int64_t to, std::int64_t bytes, void* stream) override {
        functions_.all_to_all(from, to, bytes, stream);
    }

private:
    RankFunctions functions_;
};

}  // namespace

std::unique_ptr<Ranks> ranks_of_functions(RankFunctions functions) {
    std::vector<Finding> findings;
    if (functions.size < 1) findings.push_back({"size", std::to_string(functions.size), "1 or more ranks", ""});
    if (functions.rank < 0 || functions.rank >= functions.size) {
        findings.push_back({"rank", std::to_string(functions.rank), "0 to " + std::to_string(functions.size - 1), ""});
    }
    const auto require = [&](const char* name, bool is_given) {
        if (!is_given) findings.push_back({name, "nothing", "a function", "see tilewright/ranks.h"});
    };
    require("share", static_cast<bool>(functions.share));
    require("allocate", static_cast<bool>(functions.allocate));
    require("all_gather", static_cast<bool>(functions.all_gather));
    require("all_to_all", static_cast<bool>(functions.all_to_all));
    if (!findings.empty()) throw Error(std::move(findings));
    return std::make_unique<RanksOfFunctions>(std::move(functions));
}

}  // namespace tilewright
