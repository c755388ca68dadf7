#include "cuda/driver.h"

#include <fmt/format.h>
#include <tilewright/error.h>

namespace tilewright::cuda {
namespace {

/// A CUresult in words: "out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
std::string describe(const DriverCalls& call, int result) {
    const char* name = nullptr;
    const char* words = nullptr;
    if (call.error_name(result, &name) != 0 || call.error_string(result, &words) != 0) {
        return fmt::format("error {}", result);
    }
    return fmt::format("{} ({})", words, name);
}

// Advice for the commonest errors.
constexpr int out_of_memory = 2;
constexpr int illegal_address = 700;
constexpr int launch_failed = 719;

const char* advice(int result) {
    switch (result) {
        case out_of_memory: return "; free GPU memory";
        case illegal_address:
        case launch_failed:
            return "; an earlier kernel of this process failed, and its context is lost: see which one under "
                   "compute-sanitizer";
        default: return "";
    }
}

class Loader {
public:
    explicit Loader(const OpenLibrary& library) : library_(library) {}

    template <class... Arguments>
    void load_if_there(int (*&call)(Arguments...), const char* name) const {
        call = library_.function<int(Arguments...)>(name);
    }

    template <class... Arguments>
    void load(int (*&call)(Arguments...), const char* name) const {
        load_if_there(call, name);
        if (call == nullptr) {
            throw Error(fmt::format("the NVIDIA driver {} has no {}; install a driver for CUDA 12.0 or later",
                                    library_.path(), name));
        }
    }

private:
    const OpenLibrary& library_;
};

void load_execution(const Loader& loader, DriverCalls& call) {
    loader.load(call.init, "cuInit");
    loader.load(call.error_name, "cuGetErrorName");
    loader.load(call.error_string, "cuGetErrorString");
    loader.load(call.device_count, "cuDeviceGetCount");
    loader.load(call.device_get, "cuDeviceGet");
    loader.load(call.device_name, "cuDeviceGetName");
    loader.load(call.device_attribute, "cuDeviceGetAttribute");
    loader.load(call.device_bus_id, "cuDeviceGetPCIBusId");
    loader.load(call.primary_context_retain, "cuDevicePrimaryCtxRetain");
    loader.load(call.context_current, "cuCtxGetCurrent");
    loader.load(call.context_device, "cuCtxGetDevice");
    loader.load(call.context_push, "cuCtxPushCurrent_v2");
    loader.load(call.context_pop, "cuCtxPopCurrent_v2");
    loader.load(call.context_synchronize, "cuCtxSynchronize");
    loader.load(call.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
    loader.load(call.library_load, "cuLibraryLoadData");
    loader.load(call.library_kernel, "cuLibraryGetKernel");
    loader.load(call.kernel_function, "cuKernelGetFunction");
    loader.load(call.kernel_set_attribute, "cuKernelSetAttribute");
    loader.load(call.launch, "cuLaunchKernelEx");
    loader.load_if_there(call.most_active_clusters, "cuOccupancyMaxActiveClusters");
    loader.load(call.encode_tiled, "cuTensorMapEncodeTiled");
}

void load_memory(const Loader& loader, DriverCalls& call) {
    loader.load(call.host_allocate, "cuMemHostAlloc");
    loader.load(call.host_device_address, "cuMemHostGetDevicePointer_v2");
    loader.load(call.host_release, "cuMemFreeHost");
    loader.load(call.allocate, "cuMemAlloc_v2");
    loader.load(call.release, "cuMemFree_v2");
    loader.load(call.begin_copy_to_device, "cuMemcpyHtoD_v2");
    loader.load(call.copy_to_host, "cuMemcpyDtoH_v2");
    loader.load(call.copy_in_order, "cuMemcpyDtoDAsync_v2");
    loader.load(call.begin_fill, "cuMemsetD8_v2");
    loader.load(call.fill_bytes_in_order, "cuMemsetD8Async");
}

void load_streams(const Loader& loader, DriverCalls& call) {
    loader.load(call.stream_create, "cuStreamCreate");
    loader.load(call.stream_destroy, "cuStreamDestroy_v2");
    loader.load(call.stream_synchronize, "cuStreamSynchronize");
    loader.load(call.stream_wait_event, "cuStreamWaitEvent");
    loader.load(call.event_create, "cuEventCreate");
    loader.load(call.event_record, "cuEventRecord");
    loader.load(call.event_synchronize, "cuEventSynchronize");
    loader.load(call.event_milliseconds, "cuEventElapsedTime");
    loader.load(call.event_destroy, "cuEventDestroy_v2");
    loader.load(call.stream_begin_capture, "cuStreamBeginCapture_v2");
    loader.load(call.stream_end_capture, "cuStreamEndCapture");
    loader.load(call.graph_instantiate, "cuGraphInstantiateWithFlags");
    loader.load(call.graph_launch, "cuGraphLaunch");
    loader.load(call.graph_destroy, "cuGraphDestroy");
    loader.load(call.graph_execution_destroy, "cuGraphExecDestroy");
}

void load_peers(const Loader& loader, DriverCalls& call) {
    loader.load_if_there(call.stream_is_capturing, "cuStreamIsCapturing");
    loader.load_if_there(call.stream_query, "cuStreamQuery");
    loader.load_if_there(call.device_of_bus_id, "cuDeviceGetByPCIBusId");
    loader.load_if_there(call.can_access_peer, "cuDeviceCanAccessPeer");
    loader.load_if_there(call.enable_peer_access, "cuCtxEnablePeerAccess");
    loader.load_if_there(call.export_memory, "cuIpcGetMemHandle");
    loader.load_if_there(call.import_memory, "cuIpcOpenMemHandle_v2");
    loader.load_if_there(call.close_import, "cuIpcCloseMemHandle");
}

}  // namespace

Driver::Driver(const std::string& library) : library_({library}) {
    if (!library_.is_open()) {
        throw Error("no NVIDIA driver: " + library +
                    " was not found; install the driver (in a container: start it with the GPUs, e.g. --gpus all), or "
                    "use the CPU backend");
    }
    const Loader loader(library_);
    load_execution(loader, call);
    load_memory(loader, call);
    load_streams(loader, call);
    load_peers(loader, call);
    if (const int result = call.init(0); result != 0) {
        throw Error("the NVIDIA driver does not start: " + describe(call, result) +
                    "; run `nvidia-smi`, or use the CPU backend");
    }
}

void Driver::fail(int result, const char* what, int device) const {
    throw Error(fmt::format("cuda:{}: {} failed: {}{}", device, what, describe(call, result), advice(result)));
}

const Driver& driver() {
    static const Driver opened("libcuda.so.1");
    return opened;
}

}  // namespace tilewright::cuda
