#include "measure/probes.h"

#include <fmt/format.h>
#include <tilewright/error.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "cuda/library_search.h"

namespace tilewright::measure {
namespace {

constexpr int stream_bytes = ProbeStream::most_depth * static_cast<int>(ProbeStream::chunk_bytes);
constexpr int nearly_all_shared = 226 * 1024;  // of the 227 KiB that a block may have
constexpr unsigned copy_threads = 512;
constexpr int copy_blocks = 4;  // per SM

constexpr std::string_view head = R"ptx(.version 8.0
.target sm_90
.address_size 64
.visible .entry probe_nothing()
{
    ret;
}
)ptx";

// Two loads are in flight for each thread.
constexpr std::string_view copy = R"ptx(
.visible .entry probe_copy(.param .u64 from, .param .u64 to, .param .u64 vectors)
{
    .reg .pred %p, %second;
    .reg .b32 %block, %size, %thread, %blocks, %a, %b, %c, %d, %e, %f, %g, %h;
    .reg .b64 %index, %step, %count, %from, %to, %offset, %next, %address;
    ld.param.u64 %from, [from];
    ld.param.u64 %to, [to];
    ld.param.u64 %count, [vectors];
    cvta.to.global.u64 %from, %from;
    cvta.to.global.u64 %to, %to;
    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mov.u32 %thread, %tid.x;
    mov.u32 %blocks, %nctaid.x;
    cvt.u64.u32 %index, %thread;
    mad.wide.u32 %index, %block, %size, %index;
    mul.wide.u32 %step, %blocks, %size;
again:
    setp.ge.u64 %p, %index, %count;
    @%p bra done;
    add.u64 %next, %index, %step;
    setp.lt.u64 %second, %next, %count;
    shl.b64 %offset, %index, 4;
    add.u64 %address, %from, %offset;
    ld.global.v4.u32 {%a, %b, %c, %d}, [%address];
    shl.b64 %next, %next, 4;
    add.u64 %address, %from, %next;
    @%second ld.global.v4.u32 {%e, %f, %g, %h}, [%address];
    add.u64 %address, %to, %offset;
    st.global.v4.u32 [%address], {%a, %b, %c, %d};
    add.u64 %address, %to, %next;
    @%second st.global.v4.u32 [%address], {%e, %f, %g, %h};
    add.u64 %index, %index, %step;
    add.u64 %index, %index, %step;
    bra again;
done:
    ret;
}
)ptx";

// One thread of each block copies every gridDim.x-th chunk into a ring. After the last chunk of the memory it goes on
// at the first. `arrived` counts the chunks: a wait that lasts too long ends the kernel, and leaves the count short.
constexpr std::string_view stream = R"ptx(
.extern .shared .align 128 .b8 ring[];
.visible .entry probe_stream(.param .u64 from, .param .u64 chunks, .param .u64 all, .param .u32 depth,
                             .param .u64 arrived)
{
    .reg .pred %p, %ready;
    .reg .b32 %stage, %turn, %barrier, %place, %parity, %left, %budget, %first_barrier, %first_place, %depth;
    .reg .b32 %block, %blocks;
    .reg .b64 %index, %step, %at, %count, %all, %from, %offset, %address, %to, %seen;
    .shared .align 8 .b64 full[12];
    ld.param.u64 %from, [from];
    ld.param.u64 %count, [chunks];
    ld.param.u64 %all, [all];
    ld.param.u32 %depth, [depth];
    ld.param.u64 %to, [arrived];
    cvta.to.global.u64 %from, %from;
    cvta.to.global.u64 %to, %to;
    mov.u32 %block, %ctaid.x;
    mov.u32 %blocks, %nctaid.x;
    cvt.u64.u32 %index, %block;
    cvt.u64.u32 %step, %blocks;
    mov.u64 %at, %index;
    mov.u32 %first_barrier, full;
    mov.u32 %first_place, ring;
    mov.u32 %stage, 0;
init:
    mad.lo.u32 %barrier, %stage, 8, %first_barrier;
    mbarrier.init.shared::cta.b64 [%barrier], 1;
    add.u32 %stage, %stage, 1;
    setp.lt.u32 %p, %stage, %depth;
    @%p bra init;
    fence.mbarrier_init.release.cluster;
    mov.u32 %stage, 0;
    mov.u32 %turn, 0;
    mov.u32 %left, %depth;
    mov.u64 %seen, 0;
    mov.u32 %budget, 4000000;
again:
    mad.lo.u32 %barrier, %stage, 8, %first_barrier;
    mad.lo.u32 %place, %stage, 16384, %first_place;
    setp.eq.u32 %p, %turn, 0;
    @%p bra next;
    sub.u32 %parity, %turn, 1;
    and.b32 %parity, %parity, 1;
wait:
    sub.u32 %budget, %budget, 1;
    setp.eq.u32 %p, %budget, 0;
    @%p bra done;
    mbarrier.try_wait.parity.shared::cta.b64 %ready, [%barrier], %parity;
    @!%ready bra wait;
    add.u64 %seen, %seen, 1;
next:
    setp.ge.u64 %p, %index, %all;
    @%p bra none;
    shl.b64 %offset, %at, 14;
    add.u64 %address, %from, %offset;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%barrier], 16384;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%place], [%address], 16384, [%barrier];
    add.u64 %index, %index, %step;
    add.u64 %at, %at, %step;
    setp.ge.u64 %p, %at, %count;
    @%p sub.u64 %at, %at, %count;
    bra advance;
none:
    sub.u32 %left, %left, 1;
    setp.eq.u32 %p, %left, 0;
    @%p bra done;
advance:
    add.u32 %stage, %stage, 1;
    setp.lt.u32 %p, %stage, %depth;
    @%p bra again;
    mov.u32 %stage, 0;
    add.u32 %turn, %turn, 1;
    bra again;
done:
    red.global.add.u64 [%to], %seen;
    ret;
}
)ptx";

const cuda::DriverCalls& call() { return cuda::driver().call; }

void require(int result, const char* name) { cuda::driver().require(result, name, 0); }

}  // namespace

const std::string& probes_ptx() {
    static const std::string text = std::string(head) + std::string(copy) + std::string(stream);
    return text;
}

Probes::Probes(const Device& device) : device_(device), arrived_(sizeof(std::uint64_t)) {
    require(call().library_load(&library_, probes_ptx().c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
            "cuLibraryLoadData");
    stream_ = function("probe_stream", stream_bytes);
    copy_ = function("probe_copy", 0);
    nothing_ = function("probe_nothing", nearly_all_shared);
    arrived_.fill(0);
}

cuda::FunctionHandle Probes::function(const char* name, int shared_bytes) const {
    cuda::KernelHandle kernel = nullptr;
    cuda::FunctionHandle found = nullptr;
    require(call().library_kernel(&kernel, library_, name), "cuLibraryGetKernel");
    if (shared_bytes > 0) {
        require(call().kernel_set_attribute(cuda::attribute_max_dynamic_shared_bytes, shared_bytes, kernel, 0),
                "cuKernelSetAttribute");
    }
    require(call().kernel_function(&found, kernel), "cuKernelGetFunction");
    return found;
}

void Probes::enqueue(cuda::FunctionHandle kernel, int blocks, unsigned threads, unsigned shared_bytes, void** arguments,
                     cuda::StreamHandle stream) const {
    cuda::LaunchConfig config;
    config.grid[0] = static_cast<unsigned>(blocks);
    config.block[0] = threads;
    config.shared_bytes = shared_bytes;
    config.stream = stream;
    require(call().launch(&config, kernel, arguments, nullptr), "cuLaunchKernelEx");
}

void Probes::enqueue_stream(const Buffer& from, const ProbeStream& shape, cuda::StreamHandle stream) {
    const bool fits = static_cast<std::int64_t>(from.size()) >= shape.chunks * ProbeStream::chunk_bytes;
    const bool sound = shape.blocks >= 1 && shape.blocks <= shape.chunks && shape.depth >= 1 &&
                       shape.depth <= ProbeStream::most_depth && shape.all_chunks >= 0;
    if (!fits || !sound) {
        throw Error(
            fmt::format("stream: got {} chunks of {} bytes for {} blocks, {} deep; expected at least a chunk a "
                        "block, and at most {} deep",
                        shape.chunks, from.size(), shape.blocks, shape.depth, ProbeStream::most_depth));
    }
    cuda::DeviceAddress address = from.address();
    auto chunks = static_cast<std::uint64_t>(shape.chunks);
    auto all = static_cast<std::uint64_t>(shape.all_chunks);
    auto depth = static_cast<std::uint32_t>(shape.depth);
    cuda::DeviceAddress to = arrived_.address();
    std::array<void*, 5> arguments{&address, &chunks, &all, &depth, &to};
    enqueue(stream_, shape.blocks, 1, static_cast<unsigned>(shape.depth * ProbeStream::chunk_bytes), arguments.data(),
            stream);
    expected_ += all;
}

void Probes::enqueue_copy(const Buffer& from, const Buffer& to, cuda::StreamHandle stream) const {
    cuda::DeviceAddress source = from.address();
    cuda::DeviceAddress target = to.address();
    std::uint64_t vectors = std::min(from.size(), to.size()) / 16;
    std::array<void*, 3> arguments{&source, &target, &vectors};
    enqueue(copy_, device_.sms() * copy_blocks, copy_threads, 0, arguments.data(), stream);
}

void Probes::enqueue_nothing(cuda::StreamHandle stream) const {
    enqueue(nothing_, device_.sms(), 1, 0, nullptr, stream);
}

std::optional<int> Probes::pairs_at_once() const {
    const cuda::OpenLibrary library({"libcuda.so.1"});
    auto* const most =
        library.function<int(int*, cuda::FunctionHandle, const cuda::LaunchConfig*)>("cuOccupancyMaxActiveClusters");
    if (most == nullptr) return std::nullopt;
    cuda::LaunchAttribute cluster{.id = cuda::LaunchAttribute::cluster_dimension, .x = 2};
    cuda::LaunchConfig config;
    config.grid[0] = static_cast<unsigned>(device_.sms() / 2 * 2);
    config.block[0] = 128;
    config.shared_bytes = nearly_all_shared;
    config.attributes = &cluster;
    config.attribute_count = 1;
    int clusters = 0;
    if (most(&clusters, nothing_, &config) != 0 || clusters <= 0) return std::nullopt;
    return clusters;
}

void Probes::check() const {
    std::uint64_t arrived = 0;
    device_.synchronize();
    arrived_.download(&arrived, sizeof arrived);
    if (arrived == expected_) return;
    throw Error(
        fmt::format("the streams of the probes loaded {} chunks of {}; run again on an idle GPU", arrived, expected_));
}

}  // namespace tilewright::measure
