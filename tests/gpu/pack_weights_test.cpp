// Packing weights on a GPU against the CPU's packing, byte for byte: any shape and scales, real sizes, in the caller's
// stream. Also the refusals.
#include <gtest/gtest.h>
#include <tilewright/error.h>
#include <tilewright/packed.h>

#include <algorithm>
#include <string>
#include <vector>

#include "formats/fp4_weights.h"
#include "measure/device.h"

namespace tilewright {
namespace {

using formats::mxfp4;
using formats::nvfp4;
using formats::random_weights;
using measure::Buffer;

constexpr DeviceId gpu{.kind = DeviceId::Kind::cuda, .index = 0};

/// An operand of the host and its copy on the GPU.
class OnGpu {
public:
    explicit OnGpu(const Operand& host) : operand(host) {
        for (Tensor* tensor : {&operand.values, &operand.scales, &operand.tensor_scale}) {
            if (!tensor->given()) continue;
            const auto bytes = static_cast<std::size_t>(row_major_bytes(tensor->format, tensor->shape));
            buffers_.emplace_back(bytes + 1);
            buffers_.back().upload(tensor->data, bytes);
            tensor->data = buffers_.back().data();
            tensor->device = gpu;
        }
    }

    Operand operand;

private:
    std::vector<Buffer> buffers_;
};

void expect_cpu_bytes(const Operand& host, PackedFor activations, const std::string& what) {
    SCOPED_TRACE(what + " " + to_string(host.values.shape) + " for " + std::string(name(activations)));
    const OwnedPackedWeights expected = pack_weights(host, activations);
    const OnGpu weights(host);
    ASSERT_EQ(packed_bytes(weights.operand, activations), expected.packed.bytes);
    const Buffer out(static_cast<std::size_t>(expected.packed.bytes));
    const PackedWeights packed = pack_weights(weights.operand, activations, out.data(), expected.packed.bytes, {});
    EXPECT_EQ(packed.internal, expected.packed.internal);
    EXPECT_EQ(packed.device, gpu);
    EXPECT_EQ(packed.shape(), expected.packed.shape());
    std::vector<std::byte> bytes(out.size());
    out.download(bytes.data(), bytes.size());
    const auto* const wanted = static_cast<const std::byte*>(expected.packed.data);
    int wrong = 0;
    for (std::size_t i = 0; i < bytes.size() && wrong < 4; ++i) {
        if (bytes[i] == wanted[i]) continue;
        ADD_FAILURE() << "byte " << i << " is " << int(bytes[i]) << ", the CPU's " << int(wanted[i]);
        ++wrong;
    }
}

constexpr PackedFor both[] = {PackedFor::fp8, PackedFor::bf16};

TEST(GpuPackWeights, OfAnyShape) {
    const measure::Device device;
    for (const OperandRecipe& recipe : {mxfp4, nvfp4}) {
        for (const PackedFor activations : both) {
            for (const Dims& shape :
                 {Dims{1, 2}, Dims{64, 128}, Dims{65, 130}, Dims{200, 72}, Dims{130, 2880}, Dims{3, 70, 96},
                  Dims{32, 576, 704}, Dims{4096, 7168}, Dims{8, 2880, 2880}, Dims{70, 27424}}) {
                expect_cpu_bytes(random_weights(recipe, shape, 110, 120).operand(), activations, name(recipe));
            }
        }
    }
}

TEST(GpuPackWeights, OfAnyScales) {
    const measure::Device device;
    for (const PackedFor activations : both) {
        for (const int most : {0, 5, 60, 127, 200, 254, 255}) {
            for (const int difference : {0, 11, 12, 24, 60, 120, 121, 255}) {
                const int least = std::max(most - difference, 0);
                expect_cpu_bytes(random_weights(mxfp4, {67, 3200}, least, most).operand(), activations,
                                 "scales from " + std::to_string(least) + " to " + std::to_string(most));
            }
        }
        expect_cpu_bytes(random_weights(nvfp4, {67, 3200}, 0, 255).operand(), activations, "nvfp4");
    }
}

TEST(GpuPackWeights, IntoMemoryOfTheRightLength) {
    const measure::Device device;
    const OwnedOperand host = random_weights(mxfp4, {128, 256}, 110, 120);
    const OnGpu weights(host.operand());
    const Buffer out(1 << 20);
    const auto said = [&](void* to, std::int64_t bytes) -> std::string {
        try {
            pack_weights(weights.operand, PackedFor::fp8, to, bytes, {});
        } catch (const Error& error) {
            return error.what();
        }
        return "nothing";
    };
    const std::string right = std::to_string(packed_bytes(host, PackedFor::fp8));
    EXPECT_EQ(said(out.data(), 1000), "out: got 1000 bytes; expected " + right + " bytes, the result of packed_bytes.");
    EXPECT_EQ(said(nullptr, 1000),
              "out: got a null pointer; expected " + right + " bytes, the result of packed_bytes.");
    EXPECT_NE(said(static_cast<std::byte*>(out.data()) + 64, 1000).find("aligned to 128 bytes"), std::string::npos);
    EXPECT_THROW(pack_weights(weights.operand, PackedFor::fp8), Error);
}

}  // namespace
}  // namespace tilewright
