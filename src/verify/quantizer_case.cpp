#include "verify/quantizer_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "check/memory.h"
#include "check/random.h"
#include "formats/element.h"

namespace tilewright::verify {
namespace {

// Sizes that end within a block, and groups of which one is empty and one is small.
constexpr std::int64_t tokens = 300, features = 272, block = 128;
constexpr std::array<std::int64_t, 4> ends{0, 5, 140, tokens};
constexpr auto groups = static_cast<std::int64_t>(ends.size());

// The error of f32 until a number is divided by its scale: products, and SwiGLU's operations.
constexpr double lost = 1e-5;

/// Half of the distance between the codes around y, and the largest code.
struct CodeRule {
    int mantissa_bits;
    int least_exponent;
    double largest;

    double half_step(double y) const {
        const int exponent = y == 0 ? least_exponent : std::max(std::ilogb(y), least_exponent);
        return std::ldexp(1.0, exponent - mantissa_bits - 1);
    }
};

CodeRule rule_of(Format codes) { return codes == Format::e4m3 ? CodeRule{3, -6, 448} : CodeRule{2, -14, 57344}; }

/// Numbers of many sizes, and zeros.
double random_number(std::uint64_t seed, std::int64_t i, std::int64_t j) {
    const std::uint64_t bits = check::random_bits(seed, i, j);
    if (bits % 16 == 0) return 0;
    const double unit = static_cast<double>(bits >> 40) * 0x1p-24 - 0.5;
    return std::ldexp(unit, static_cast<int>(bits / 16 % 8));
}

std::vector<float> random_factors(std::uint64_t seed, std::int64_t count) {
    std::vector<float> factors;
    for (std::int64_t i = 0; i < count; ++i) factors.push_back(static_cast<float>(random_number(seed, i, -1)) + 1.0F);
    return factors;
}

double swiglu(double gate, double up, const SwiGlu& form) {
    const double limit = form.limit, g = std::min(gate, limit), u = std::clamp(up, -limit, limit);
    return g / (1 + std::exp(-form.alpha * g)) * (u + form.beta);
}

/// Whether a scale is that of a block with this largest number.
bool is_scale(double scale, double largest_number, const CodeRule& rule, bool round_up) {
    const double expected = largest_number / rule.largest;
    if (largest_number == 0) return scale == 1;
    if (!round_up) return std::abs(scale - expected) <= lost * expected;
    int exponent = 0;
    return std::frexp(scale, &exponent) == 0.5 && scale >= expected * (1 - lost) && scale < expected * 2 * (1 + lost);
}

}  // namespace

std::string describe(const QuantizerSpec& spec) {
    return fmt::format("{} of {} to {}{}{}, seed {}", spec.quantizer.name, name(spec.numbers), name(spec.codes),
                       spec.round_up ? ", rounded up" : "", spec.gpt_oss ? ", as gpt-oss" : "", spec.seed);
}

QuantizerCase::QuantizerCase(const QuantizerSpec& spec) : spec_(spec) {
    place_source();
    place_output();
}

void QuantizerCase::place_source() {
    const std::int64_t width = spec_.quantizer.swiglu ? 2 * features : features;
    x_.resize(static_cast<std::size_t>(tokens * width * bits(spec_.numbers) / 8));
    for (std::int64_t i = 0; i < tokens * width; ++i)
        formats::store(x_.data(), spec_.numbers, i, random_number(spec_.seed, i / width, i % width));
    source_.x = row_major(x_.data(), spec_.numbers, {tokens, width});
    if (spec_.quantizer.columns) source_.ends = row_major(ends.data(), Format::i64, {groups});
    if (!spec_.quantizer.swiglu) return;
    source_.activation = Activation::swiglu;
    if (spec_.gpt_oss) source_.swiglu = {.alpha = 1.702F, .beta = 1, .limit = 7, .interleaved = true};
}

void QuantizerCase::place_output() {
    const auto& [name, granularity, columns, folds, is_swiglu] = spec_.quantizer;
    const Dims shape = columns ? Dims{features, column_limit(tokens, groups)} : Dims{tokens, features};
    Dims scales = scale_shape(granularity, shape);
    if (columns && granularity == Granularity::row) scales = {groups, features};
    codes_.assign(static_cast<std::size_t>(shape[0] * shape[1]), check::poison);
    scales_.assign(static_cast<std::size_t>(row_major_bytes(Format::f32, scales)), check::poison);
    out_.operand = {.values = row_major(codes_.data(), spec_.codes, shape),
                    .granularity = granularity,
                    .scales = row_major(scales_.data(), Format::f32, scales)};
    if (!folds) return;
    token_factors_ = random_factors(spec_.seed + 1, tokens);
    feature_factors_ = random_factors(spec_.seed + 2, groups * features);
    out_.token_factors = row_major(token_factors_.data(), Format::f32, {tokens});
    out_.feature_factors = row_major(feature_factors_.data(), Format::f32, {groups, features});
}

std::int64_t QuantizerCase::group_of(std::int64_t token) const {
    return std::upper_bound(ends.begin(), ends.end(), token) - ends.begin();
}

std::int64_t QuantizerCase::column_of(std::int64_t token) const {
    std::int64_t column = 0;
    for (std::int64_t group = 0; group < group_of(token); ++group) {
        const auto at = static_cast<std::size_t>(group);
        column += (ends[at] - (group == 0 ? 0 : ends[at - 1]) + block - 1) / block * block;
    }
    const std::int64_t group = group_of(token);
    return column + token - (group == 0 ? 0 : ends[static_cast<std::size_t>(group - 1)]);
}

std::int64_t QuantizerCase::code_index(std::int64_t token, std::int64_t feature) const {
    const std::int64_t width = out_.operand.values.shape[1];
    return spec_.quantizer.columns ? feature * width + column_of(token) : token * width + feature;
}

std::int64_t QuantizerCase::scale_index(std::int64_t token, std::int64_t feature) const {
    const bool columns = spec_.quantizer.columns;
    const Dims& shape = out_.operand.scales.shape;
    switch (spec_.quantizer.granularity) {
        case Granularity::row: return columns ? group_of(token) * features + feature : token;
        case Granularity::block_1x128:
            return columns ? feature * shape[1] + column_of(token) / block : token * shape[1] + feature / block;
        case Granularity::block_128x128: return token / block * shape[1] + feature / block;
        default: return 0;
    }
}

double QuantizerCase::number(std::int64_t token, std::int64_t feature) const {
    return formats::load(x_.data(), spec_.numbers, token * source_.x.shape[1] + feature);
}

double QuantizerCase::exact(std::int64_t token, std::int64_t feature) const {
    if (spec_.quantizer.swiglu) {
        const bool turns = source_.swiglu.interleaved;
        const double gate = number(token, turns ? 2 * feature : feature);
        return swiglu(gate, number(token, turns ? 2 * feature + 1 : features + feature), source_.swiglu);
    }
    if (!spec_.quantizer.folds) return number(token, feature);
    return number(token, feature) * double{token_factors_[static_cast<std::size_t>(token)]} *
           double{feature_factors_[static_cast<std::size_t>(group_of(token) * features + feature)]};
}

std::string QuantizerCase::gap_failure() const {
    const std::int64_t width = out_.operand.values.shape[1];
    for (std::int64_t token = 0; spec_.quantizer.columns && token < tokens; ++token) {
        const bool is_last = token + 1 == ends[static_cast<std::size_t>(group_of(token))];
        for (std::int64_t at = column_of(token) + 1; is_last && at % block != 0; ++at) {
            for (std::int64_t feature = 0; feature < features; ++feature) {
                if (formats::load(codes_.data(), spec_.codes, feature * width + at) == 0) continue;
                return fmt::format("column {} of feature {}, behind its group, is not zero", at, feature);
            }
        }
    }
    return "";
}

QuantizerVerdict QuantizerCase::judge() const {
    const CodeRule rule = rule_of(spec_.codes);
    std::vector<double> largest(scales_.size() / sizeof(float));
    const auto largest_at = [&](std::int64_t token, std::int64_t feature) -> double& {
        return largest[static_cast<std::size_t>(scale_index(token, feature))];
    };
    for (std::int64_t i = 0; i < tokens * features; ++i) {
        double& most = largest_at(i / features, i % features);
        most = std::max(most, std::abs(exact(i / features, i % features)));
    }
    QuantizerVerdict verdict{.failure = gap_failure()};
    for (std::int64_t i = 0; i < tokens * features && verdict.failure.empty(); ++i) {
        const std::int64_t token = i / features, feature = i % features;
        const double scale = formats::load(scales_.data(), Format::f32, scale_index(token, feature));
        const std::string place = fmt::format("token {}, feature {}", token, feature);
        if (!is_scale(scale, largest_at(token, feature), rule, spec_.round_up)) {
            verdict.failure = fmt::format("{}: the scale is {}, its block's largest number {}", place, scale,
                                          largest_at(token, feature));
            break;
        }
        const double y = std::clamp(exact(token, feature) / scale, -rule.largest, rule.largest);
        const double code = formats::load(codes_.data(), spec_.codes, code_index(token, feature));
        const double error = std::abs(code - y), bound = rule.half_step(y) + lost * std::abs(y);
        if (!(error <= bound)) verdict.failure = fmt::format("{}: {} for {}", place, code, y);
        if (error / bound > verdict.ratio) verdict = {error, bound, error / bound, verdict.failure};
    }
    return verdict;
}

}  // namespace tilewright::verify
