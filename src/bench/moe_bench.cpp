#include "bench/moe_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "api/moe_steps.h"
#include "check/random.h"
#include "formats/element.h"
#include "measure/span.h"

namespace tilewright::bench {
namespace {

/// Small finite numbers of a format, and scales near the sizes that quantizers give.
void fill_pattern(Format format, std::vector<std::byte>& bytes) {
    const auto count = static_cast<std::int64_t>(bytes.size()) * 8 / bits(format);
    for (std::int64_t i = 0; i < count; ++i) {
        const std::uint64_t word = check::random_bits(1, i);
        const double number = static_cast<double>(word >> 40) * 0x1p-24 - 0.5;
        switch (format) {
            case Format::ue8m0: bytes[static_cast<std::size_t>(i)] = static_cast<std::byte>(119 + word % 4); break;
            case Format::ue4m3: formats::store(bytes.data(), format, i, 1 + number); break;
            case Format::e4m3:
            case Format::e5m2: formats::store(bytes.data(), format, i, number * 16); break;
            case Format::f32: formats::store(bytes.data(), format, i, 0.05 * (1 + number)); break;
            default: formats::store(bytes.data(), format, i, number * 4);
        }
    }
}

/// Repeats a random pattern, because the time does not depend on which numbers repeat after megabytes.
measure::Buffer random_buffer(Format format, std::size_t bytes) {
    constexpr std::size_t pattern_bytes = std::size_t{1} << 20, chunk_bytes = std::size_t{1} << 24;
    measure::Buffer buffer(std::max<std::size_t>(bytes, 1));
    std::vector<std::byte> chunk(pattern_bytes);
    fill_pattern(format, chunk);
    while (chunk.size() < std::min(chunk_bytes, bytes)) chunk.insert(chunk.end(), chunk.begin(), chunk.end());
    for (std::size_t at = 0; at < bytes; at += chunk.size()) {
        buffer.upload(chunk.data(), std::min(chunk.size(), bytes - at), at);
    }
    return buffer;
}

std::int64_t bytes_of(const Tensor& tensor) {
    return tensor.given() ? row_major_bytes(tensor.format, tensor.shape) : 0;
}

std::int64_t bytes_of(const Operand& operand) {
    if (operand.packed.given()) return operand.packed.bytes;
    return bytes_of(operand.values) + bytes_of(operand.scales) + bytes_of(operand.tensor_scale);
}

bool is_product(const MoeStep& step) { return step.name == "up" || step.name == "down"; }

double five_digits(double value) { return std::stod(fmt::format("{:.5g}", value)); }

}  // namespace

const std::vector<MoeModel>& moe_models() {
    static const std::vector<MoeModel> models{{"qwen3-30b", 128, 8, 2048, 768, "1x128:128x128"},
                                              {"qwen3-235b", 128, 8, 4096, 1536, "1x128:128x128"},
                                              {"deepseek-v3-ep8", 32, 8, 7168, 2048, "1x128:128x128"},
                                              {"gpt-oss-120b", 128, 4, 2880, 2880, "bf16:mxfp4"}};
    return models;
}

std::vector<std::int32_t> random_experts(std::int64_t tokens, std::int64_t top, std::int64_t experts, bool skewed) {
    check::Random random(7);
    const std::int64_t used = skewed ? std::max(experts / 2, std::min(top, experts)) : experts;
    const std::int64_t first = skewed ? 30 : 1;  // how likely the first one is
    std::vector<std::int32_t> ids;
    for (std::int64_t token = 0; token < tokens; ++token) {
        std::set<std::int64_t> chosen;
        while (std::ssize(chosen) < std::min(top, used)) {
            chosen.insert(std::max<std::int64_t>(random.up_to(used + first - 2) - first + 1, 0));
        }
        for (const std::int64_t expert : chosen) ids.push_back(static_cast<std::int32_t>(expert));
        for (std::int64_t i = std::ssize(chosen); i < top; ++i) ids.push_back(-1);
    }
    return ids;
}

MoeOperands::MoeOperands(const Moe& shapes, const Operand& up, const Operand& down,
                         const std::vector<std::int32_t>& experts)
    : layer_(shapes) {
    for (Tensor* tensor : {&layer_.x, &layer_.routing.weights, &layer_.up_bias, &layer_.down_bias, &layer_.out}) {
        place(*tensor);
    }
    buffers_.emplace_back(experts.size() * sizeof(std::int32_t));
    buffers_.back().upload(experts.data(), buffers_.back().size());
    layer_.routing.experts.data = buffers_.back().data();
    place(layer_.up, up);
    place(layer_.down, down);
    if (const std::int64_t bytes = workspace_bytes(layer_); bytes > 0) {
        workspace_ = measure::Buffer(static_cast<std::size_t>(bytes));
    }
}

void MoeOperands::place(Tensor& tensor) {
    if (!tensor.given()) return;
    buffers_.push_back(random_buffer(tensor.format, measure::span_bytes(tensor)));
    tensor.data = buffers_.back().data();
    tensor.device = {.kind = DeviceId::Kind::cuda};
}

void MoeOperands::place(Operand& operand, const Operand& unpacked) {
    const bool packs = operand.packed.given();
    operand = unpacked;
    for (Tensor* tensor : {&operand.values, &operand.scales, &operand.tensor_scale}) place(*tensor);
    if (!packs) return;
    const PackedFor activations = packed_for(layer_.activations);
    const std::int64_t bytes = packed_bytes(operand, activations);
    measure::Buffer packed(static_cast<std::size_t>(bytes));
    operand = {.packed = pack_weights(operand, activations, packed.data(), bytes, {})};
    buffers_.push_back(std::move(packed));
}

MoeTimes time_moe(GpuBench& gpu, const MoeOperands& operands, const std::vector<std::int32_t>& experts, int repeats) {
    const Moe& layer = operands.layer();
    Arena arena(operands.workspace().data, layer.out.device);
    const MoeSteps made = steps(layer, arena);
    const auto call_of = [](const Product& product) {
        return [&product](cuda::StreamHandle stream) {
            run(product.problem, {.stream = stream, .workspace = product.workspace});
        };
    };
    // The layer runs first, so that the products find its rows and the ends of its groups.
    const std::array<measure::Contestant, 3> contestants{
        {{"layer",
          [&](cuda::StreamHandle stream) { run(layer, {.stream = stream, .workspace = operands.workspace()}); }},
         {"up", call_of(made.up)},
         {"down", call_of(made.down)}}};
    const std::vector<measure::Measurement> measured = gpu.stopwatch().race(contestants, repeats);
    MoeTimes times{.layer = measured[0], .up = measured[1], .down = measured[2]};
    std::set<std::int32_t> hit(experts.begin(), experts.end());
    hit.erase(-1);
    times.experts_hit = std::ssize(hit);
    const MoeSizes sizes = sizes_of(layer);
    times.bytes = static_cast<double>(bytes_of(layer.up) + bytes_of(layer.down)) *
                  static_cast<double>(times.experts_hit) / static_cast<double>(sizes.experts);
    for (const MoeStep& step : explain(layer, gpu.description())) {
        times.predicted += step.seconds;
        if (!is_product(step)) times.bytes += static_cast<double>(step.bytes);
    }
    for (const Problem* problem : {&made.up.problem, &made.down.problem}) {
        times.bytes += static_cast<double>(bytes_of(problem->a) + bytes_of(problem->d));
    }
    return times;
}

nlohmann::ordered_json moe_record(const Moe& layer, const MoeTimes& times) {
    const MoeSizes sizes = sizes_of(layer);
    const double products = times.up.seconds + times.down.seconds;
    return {{"peer", fmt::format("Tilewright {} layer of experts", TILEWRIGHT_VERSION)},
            {"op", "moe"},
            {"shape",
             {{"tokens", sizes.tokens},
              {"experts", sizes.experts},
              {"top", sizes.choices - layer.routing.shared},
              {"shared", layer.routing.shared},
              {"hidden", sizes.hidden},
              {"inner", sizes.inner}}},
            {"unit", name(layer.unit.kind)},
            {"experts_hit", times.experts_hit},
            {"us", five_digits(times.layer.seconds * 1e6)},
            {"up_us", five_digits(times.up.seconds * 1e6)},
            {"down_us", five_digits(times.down.seconds * 1e6)},
            {"ratio_to_products", five_digits(times.layer.seconds / products)},
            {"predicted_us", five_digits(times.predicted * 1e6)},
            {"gbs", five_digits(times.bytes / times.layer.seconds * 1e-9)},
            {"clock_ghz", five_digits(times.layer.hertz * 1e-9)},
            {"calls", times.layer.calls}};
}

}  // namespace tilewright::bench
