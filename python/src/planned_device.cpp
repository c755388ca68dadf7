#include "planned_device.h"

#include <sys/stat.h>
#include <tilewright/error.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <tuple>
#include <utility>

namespace tilewright::python {
namespace {

constexpr std::string_view automatic = "automatic";

/// It differs after a file was written again or replaced.
using FileState = std::tuple<dev_t, ino_t, off_t, time_t, long>;

struct KeptDevice {
    FileState state;
    PlannedDevice device;
};

/// Other libraries take "cuda", or torch's device, as the place where a call runs. Here the place follows from the
/// arrays.
[[noreturn]] void refuse_device(nb::handle value) {
    std::string names;
    for (const DeviceDescription& device : known_devices()) names += (names.empty() ? "" : ", ") + device.name;
    refuse("planned_device", shown(value),
           "one of " + names +
               " or automatic (the GPU whose plans determine the bits, also on a machine without a GPU), or a device "
               "file, e.g. \"./my_h100.tsv\"",
           "omit it to run on a GPU: pass arrays in GPU memory. backend=\"hopper\" rejects all others");
}

/// The text of a str or an os.PathLike.
std::string word_of(nb::handle value) {
    if (nb::isinstance<nb::str>(value)) return std::string(text(value, "planned_device", {}));
    const nb::object path = nb::hasattr(value, "__fspath__") ? nb::steal(PyOS_FSPath(value.ptr())) : nb::object();
    if (!path.is_valid()) PyErr_Clear();
    if (!path.is_valid() || !nb::isinstance<nb::str>(path)) refuse_device(value);
    const std::string word(text(path, "planned_device", {}));
    return is_device_file(word) ? word : "./" + word;  // a path object is never a name
}

PlannedDevice read(const std::string& path) {
    try {
        return std::make_shared<const DeviceDescription>(read_device(path));
    } catch (const Error& error) {
        std::vector<Finding> findings = error.findings();
        for (Finding& finding : findings) finding.operand = "planned_device";
        throw Error(std::move(findings));
    }
}

PlannedDevice kept(const std::string& path) {
    static std::mutex changing;
    static std::map<std::string, KeptDevice> all;
    constexpr std::size_t most = 64;
    struct stat now {};
    if (path.find('\0') != std::string::npos || ::stat(path.c_str(), &now) != 0) return read(path);
    const FileState state{now.st_dev, now.st_ino, now.st_size, now.st_mtim.tv_sec, now.st_mtim.tv_nsec};
    const std::lock_guard lock(changing);
    if (const auto found = all.find(path); found != all.end() && found->second.state == state) {
        return found->second.device;
    }
    PlannedDevice device = read(path);
    if (all.size() >= most) all.clear();
    all.insert_or_assign(path, KeptDevice{state, device});
    return device;
}

}  // namespace

PlannedDevice planned_device(nb::handle value) {
    if (value.is_none()) return nullptr;
    const std::string word = word_of(value);
    if (word == automatic) return nullptr;
    for (const DeviceDescription& device : known_devices()) {
        if (device.name == word) return {PlannedDevice(), &device};  // owns nothing: it lives as long as the program
    }
    if (!is_device_file(word)) refuse_device(value);
    return kept(word);
}

std::string lasting_device_word(nb::handle value) {
    if (value.is_none()) refuse_device(value);
    std::string word = word_of(value);
    (void)planned_device(value);
    if (!is_device_file(word)) return word;
    while (word.starts_with("./")) word.erase(0, 2);
    std::error_code error;
    const std::filesystem::path full = std::filesystem::absolute(word, error);
    return error ? word : full.string();
}

}  // namespace tilewright::python
