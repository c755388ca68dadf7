#include "ranks/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <tilewright/error.h>

namespace tilewright::ranks {
namespace {

constexpr const char* library_name = "libnccl.so.2";
constexpr int oldest_version = 2700;  // the first with ncclSend and ncclRecv
constexpr const char* update = "install NCCL 2.7 or later (apt-get install libnccl2)";

/// NCCL_VERSION of nccl.h: 2708 is 2.7.8, and from 2.9 on, 22809 is 2.28.9.
std::string nccl_version_text(int version) {
    const int unit = version < 10000 ? 1000 : 10000;
    return fmt::format("{}.{}.{}", version / unit, version % unit / 100, version % 100);
}

/// The file that a function came from.
std::string file_of(int (*function)(int*)) {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(function), &info) == 0 || info.dli_fname == nullptr) return "the program";
    return info.dli_fname;
}

/// Fills the table. Returns the name of a function that is missing; null if none is.
const char* load_nccl(const cuda::OpenLibrary& library, NcclCalls& calls) {
    const char* missing = nullptr;
    const auto load = [&]<class Result, class... Arguments>(Result (*&call)(Arguments...), const char* name) {
        call = library.function<Result(Arguments...)>(name);
        if (call == nullptr && missing == nullptr) missing = name;
    };
    load(calls.error_string, "ncclGetErrorString");
    load(calls.count, "ncclCommCount");
    load(calls.rank, "ncclCommUserRank");
    load(calls.device, "ncclCommCuDevice");
    load(calls.state, "ncclCommGetAsyncError");
    load(calls.all_gather, "ncclAllGather");
    load(calls.send, "ncclSend");
    load(calls.receive, "ncclRecv");
    load(calls.group_start, "ncclGroupStart");
    load(calls.group_end, "ncclGroupEnd");
    calls.last_error = library.function<const char*(Communicator)>("ncclGetLastError");
    return missing;
}

cuda::Library examine_nccl(const cuda::OpenLibrary& library, NcclCalls& calls) {
    cuda::Library found{.path = library.path(), .advice = update};
    if (!library.is_open()) {
        found.problem = fmt::format("no NCCL: {} was not found", library_name);
        found.advice = "only layers over several GPUs need it: apt-get install libnccl2 (Python uses torch's copy)";
        return found;
    }
    calls.version = library.function<int(int*)>("ncclGetVersion");
    int version = 0;
    if (calls.version == nullptr || calls.version(&version) != 0) {
        found.problem = found.path + " is not NCCL: it has no ncclGetVersion that works";
        return found;
    }
    found.path = file_of(calls.version);
    found.version = nccl_version_text(version);
    if (version < oldest_version) {
        found.problem = fmt::format("NCCL {} of {} is too old: it has no ncclSend", found.version, found.path);
        return found;
    }
    if (const char* missing = load_nccl(library, calls); missing != nullptr) {
        found.problem = fmt::format("NCCL {} of {} has no {}", found.version, found.path, missing);
        return found;
    }
    found.usable = true;
    found.advice.clear();
    return found;
}

cuda::OpenLibrary find_nccl() {
    if (cuda::OpenLibrary loaded = cuda::OpenLibrary::loaded(library_name); loaded.is_open()) return loaded;
    cuda::OpenLibrary process = cuda::OpenLibrary::of_process();
    if (process.function<int(int*)>("ncclGetVersion") != nullptr) return process;
    return cuda::OpenLibrary({library_name});
}

}  // namespace

Nccl::Nccl(const cuda::OpenLibrary& library) {
    const cuda::Library found = examine_nccl(library, call);
    if (!found.usable) throw Error(found.problem + "; " + found.advice);
    name_ = "NCCL " + found.version;
}

void Nccl::fail(int result, const std::string& who, const char* what, Communicator communicator) const {
    std::string text = fmt::format("{}: {} failed: {} (ncclResult_t {})", who, what, call.error_string(result), result);
    std::string last = call.last_error == nullptr ? "" : call.last_error(communicator);
    last.erase(last.find_last_not_of(" \n") + 1);
    if (!last.empty()) text += ": " + last;
    throw Error(text + "; NCCL_DEBUG=WARN in the environment prints more");
}

const Nccl& nccl() {
    static const Nccl opened(find_nccl());
    return opened;
}

cuda::Library probe_nccl(const cuda::OpenLibrary& library) {
    NcclCalls unused;
    return examine_nccl(library, unused);
}

cuda::Library probe_nccl() { return probe_nccl(find_nccl()); }

}  // namespace tilewright::ranks
