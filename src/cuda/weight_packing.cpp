#include "cuda/weight_packing.h"

#include <tilewright/error.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/runtime.h"
#include "formats/packed_layout.h"
#include "formats/packed_source.h"
#include "formats/quantize_cpu.h"
#include "launch/weight_packing.h"

namespace tilewright::cuda {
namespace {

/// Memory of the current device, used for a few calls.
class Scratch {
public:
    Scratch(int device, std::size_t bytes) {
        driver().require(driver().call.allocate(&address_, std::max<std::size_t>(bytes, 1)), "cuMemAlloc", device);
    }
    ~Scratch() { driver().call.release(address_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    DeviceAddress address() const { return address_; }
    void* data() const { return reinterpret_cast<void*>(address_); }

private:
    DeviceAddress address_ = 0;
};

std::size_t rows_of(const Operand& weights) {
    const Dims& shape = weights.values.shape;
    return static_cast<std::size_t>(shape[shape.rank() - 2] * (shape.rank() == 3 ? shape[0] : 1));
}

class Packing {
public:
    Packing(const Operand& weights, PackedFor activations, void* stream)
        : weights_(weights),
          activations_(activations),
          index_(weights.values.device.index),
          device_(runtime().device(index_)),
          context_(device_.context()),
          order_{static_cast<StreamHandle>(stream), false},
          judgements_(index_, rows_of(weights)) {}

    /// Judges each row. Unless `out` is null, writes rows and tiles.
    void write_tiles(const formats::PackedSections& sections, void* out) const {
        for (const launch::OtherLaunch& each :
             launch::lower_tiles(weights_, activations_, sections, judgements_.data(), out)) {
            launch(each);
        }
    }

    /// The plan that the judgements give.
    launch::PackedPlan plan() const {
        std::vector<std::uint8_t> judgements(rows_of(weights_));
        wait();
        if (!judgements.empty()) {
            driver().require(driver().call.copy_to_host(judgements.data(), judgements_.address(), judgements.size()),
                             "cuMemcpyDtoH", index_);
        }
        return launch::packed_plan(weights_, activations_, judgements);
    }

    void write_rest(const launch::PackedPlan& plan, void* out) const {
        const std::size_t bytes = plan.kept_rows.size() * sizeof(std::int64_t);
        const Scratch kept(index_, bytes);
        if (bytes > 0) {
            driver().require(driver().call.write(kept.address(), plan.kept_rows.data(), bytes), "cuMemcpyHtoD", index_);
        }
        launch(launch::lower_rest(weights_, activations_, plan, static_cast<const std::int64_t*>(kept.data()), out));
        wait();
    }

    void wait_for_device() const { driver().require(driver().call.context_synchronize(), "cuCtxSynchronize", index_); }

private:
    void launch(const launch::OtherLaunch& launch) const {
        if (launch.blocks > 0) device_.launch(launch, order_);
    }
    void wait() const {
        driver().require(driver().call.stream_synchronize(order_.stream), "cuStreamSynchronize", index_);
    }

    const Operand& weights_;
    PackedFor activations_;
    int index_;
    Device& device_;
    ContextScope context_;
    InStream order_;
    Scratch judgements_;
};

}  // namespace

std::int64_t packed_bytes(const Operand& weights, PackedFor activations) {
    const Packing packing(weights, activations, nullptr);
    packing.wait_for_device();
    packing.write_tiles(formats::PackedSource(weights).sections(), nullptr);
    return packing.plan().bytes;
}

PackedWeights pack_weights(const Operand& weights, PackedFor activations, void* out, std::int64_t bytes, void* stream) {
    if (reinterpret_cast<std::uintptr_t>(out) % formats::packed_alignment != 0) {
        throw Error({{.operand = "out",
                      .given = "an address that is not a multiple of 128",
                      .expected = "GPU memory aligned to 128 bytes",
                      .advice = {}}});
    }
    const Packing packing(weights, activations, stream);
    // Most weights have no row with windows, so their tiles are written while the host does not know yet. Memory that
    // is too short for these tiles is not written, and the error states the right length.
    const formats::PackedSource source(weights);
    const bool has_room = out != nullptr && bytes >= source.sections().kept_at();
    packing.write_tiles(source.sections(), has_room ? out : nullptr);
    const launch::PackedPlan plan = packing.plan();
    formats::check_packed_bytes(out, bytes, plan.bytes);
    if (plan.sections.windows != 0) packing.write_tiles(plan.sections, out);
    packing.write_rest(plan, out);
    const formats::PackedHeader header =
        formats::header_of(plan.sections, source.recipe(), activations, source.grouped(), plan.bytes);
    return packed_weights(&header, out, bytes, weights.values.device);
}

}  // namespace tilewright::cuda
