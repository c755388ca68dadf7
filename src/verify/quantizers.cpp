#include "verify/quantizers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>

#include "formats/recipe_of.h"
#include "launch/quantize.h"
#include "measure/device.h"
#include "measure/span.h"
#include "verify/quantizer_case.h"
#include "verify/shipped.h"

namespace tilewright::verify {
namespace {

std::vector<QuantizerSpec> specs_of(const Quantizer& quantizer, bool quick) {
    std::vector<QuantizerSpec> specs;
    for (const Format numbers : {Format::bf16, Format::f32, Format::f16}) {
        for (const Format codes : {Format::e4m3, Format::e5m2}) {
            for (const bool round_up : {false, true}) {
                specs.push_back({.quantizer = quantizer,
                                 .numbers = numbers,
                                 .codes = codes,
                                 .round_up = round_up,
                                 .gpt_oss = quantizer.swiglu && round_up,
                                 .seed = specs.size() + 1});
            }
        }
    }
    if (quick) specs.resize(1);
    return specs;
}

/// The call of a case, with its own memory or with memory of a GPU.
struct Call {
    TokenSource source{};
    TokenOperand out{};
    bool columns = false;
    bool round_up = false;
    bool is_matrix = false;
};

Call call_of(const QuantizerCase& test, const Quantizer& quantizer) {
    return {.source = test.source(),
            .out = test.out(),
            .columns = quantizer.columns,
            .round_up = test.round_up(),
            .is_matrix = test.is_matrix()};
}

void run(const Call& call, const ConversionOptions& how) {
    const Operand& out = call.out.operand;
    if (call.is_matrix) {
        return quantize(call.source.x, {.recipe = recipe_of(out), .round_up = call.round_up}, out, how);
    }
    const TokenOperand none{};
    quantize_tokens(call.source, call.columns ? none : call.out, call.columns ? call.out : none, call.round_up, how);
}

std::vector<launch::OtherLaunch> launches(const Call& call) {
    if (call.is_matrix) return launch::lower(call.source.x, call.out.operand, call.round_up);
    const TokenOperand none{};
    return launch::lower(call.source, call.columns ? none : call.out, call.columns ? call.out : none, call.round_up);
}

/// The call with all tensors in memory of the GPU, which begins with the host's bytes.
class CallOnGpu {
public:
    explicit CallOnGpu(const Call& call) : call_(call) {
        for (Tensor* tensor : {&call_.source.x, &call_.source.ends, &call_.out.token_factors,
                               &call_.out.feature_factors, &call_.out.operand.values, &call_.out.operand.scales}) {
            if (tensor->given()) move(*tensor);
        }
    }

    const Call& call() const { return call_; }

    /// Whether codes and scales, the last two of the tensors, are the host's now.
    bool has_bytes_of(const Call& host) const {
        const Tensor* const tensors[] = {&host.out.operand.values, &host.out.operand.scales};
        return std::equal(std::begin(tensors), std::end(tensors), buffers_.end() - 2,
                          [](const Tensor* tensor, const measure::Buffer& buffer) {
                              std::vector<std::byte> bytes(buffer.size());
                              buffer.download(bytes.data(), bytes.size());
                              return std::memcmp(bytes.data(), tensor->data, bytes.size()) == 0;
                          });
    }

private:
    void move(Tensor& tensor) {
        const std::size_t bytes = measure::span_bytes(tensor);
        buffers_.emplace_back(bytes);
        buffers_.back().upload(tensor.data, bytes);
        tensor.data = buffers_.back().data();
        tensor.device = {.kind = DeviceId::Kind::cuda};
    }

    Call call_;
    std::vector<measure::Buffer> buffers_;
};

using Clock = std::chrono::steady_clock;

double seconds_of(const Call& call, const ConversionOptions& how) {
    const auto begin = Clock::now();
    run(call, how);
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

QuantizerVerdict verdict_of(const QuantizerCase& test, const Call& call, RowResult& row) {
    row.seconds += seconds_of(call, {.threads = 1});
    return test.judge();
}

/// Compares the earlier output of a GPU with what the CPU writes now.
QuantizerVerdict verdict_of_gpu(const Call& call, const CallOnGpu& on_gpu, const measure::Device& gpu, RowResult& row) {
    row.seconds += seconds_of(on_gpu.call(), {.stream = gpu.stream()});
    gpu.synchronize();
    run(call, {.threads = 1});
    return {.failure = on_gpu.has_bytes_of(call) ? "" : "codes or scales are not the CPU's"};
}

void run_case(const QuantizerSpec& spec, const VerifySettings& settings, RowResult& row) {
    const QuantizerCase test(spec);
    const Call call = call_of(test, spec.quantizer);
    QuantizerVerdict verdict;
    if (settings.gpu == nullptr) {
        verdict = verdict_of(test, call, row);
    } else {
        const CallOnGpu on_gpu(call);
        if (settings.quick && !ships(launches(on_gpu.call()))) {
            ++row.unshipped;
            return;
        }
        verdict = verdict_of_gpu(call, on_gpu, *settings.gpu, row);
    }
    ++row.cases;
    if (verdict.ratio > row.ratio) {
        row.error = verdict.error;
        row.bound = verdict.bound;
        row.ratio = verdict.ratio;
    }
    if (!verdict.failure.empty()) row.add_failure(describe(spec) + ": " + verdict.failure);
}

}  // namespace

const std::vector<Quantizer>& all_quantizers() {
    static const std::vector<Quantizer> list{
        {.name = "tensor", .granularity = Granularity::tensor},
        {.name = "row", .granularity = Granularity::row},
        {.name = "column", .granularity = Granularity::row, .columns = true},
        {.name = "1x128", .granularity = Granularity::block_1x128},
        {.name = "128x1", .granularity = Granularity::block_1x128, .columns = true},
        {.name = "128x128", .granularity = Granularity::block_128x128},
        {.name = "folded", .granularity = Granularity::block_1x128, .columns = true, .folds = true},
        {.name = "swiglu", .granularity = Granularity::block_1x128, .swiglu = true}};
    return list;
}

RowResult run_quantizer(const Quantizer& quantizer, const VerifySettings& settings,
                        const std::function<void()>& progress) {
    RowResult row;
    for (const QuantizerSpec& spec : specs_of(quantizer, settings.quick)) {
        try {
            run_case(spec, settings, row);
        } catch (const std::exception& error) {
            row.add_failure(fmt::format("{}: {}", describe(spec), error.what()));
        }
        progress();
    }
    return row;
}

std::int64_t count_cases(const VerifySettings& settings) {
    return static_cast<std::int64_t>(specs_of(all_quantizers().front(), settings.quick).size());
}

}  // namespace tilewright::verify
