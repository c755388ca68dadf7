#include "fuzz/random_case.h"

#include "check/random.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tilewright::fuzz {
namespace {

constexpr std::int64_t largest_size = 300;
constexpr std::int64_t largest_work = std::int64_t{1} << 23;  // multiply-adds of a case

std::int64_t random_size(Bytes& bytes) {
    switch (bytes.up_to(3)) {
        case 0: return bytes.up_to(9);
        case 1:
            return bytes.pick<std::int64_t>({0,  1,  2,  7,  8,   15,  16,  17,  31,  32,  33,  48,  63,
                                             64, 65, 96, 97, 127, 128, 129, 160, 192, 255, 256, 257, 288});
        default: return bytes.up_to(largest_size);
    }
}

bool takes_sizes(Grouping grouping) { return grouping != Grouping::dense && grouping != Grouping::batched; }

std::int64_t work(const check::CaseSpec& spec) {
    const bool repeated = spec.grouping == Grouping::batched || spec.grouping == Grouping::m_grouped_masked;
    return spec.m * spec.n * std::max<std::int64_t>(spec.k, 1) * (repeated ? spec.groups : 1);
}

/// A group index, end or count that no one should trust.
std::int64_t random_entry(const check::CaseSpec& spec, Bytes& bytes) {
    const std::int64_t limit = is_k_grouped(spec.grouping) ? spec.k : spec.m;
    const bool wide = spec.size_format == Format::i64;
    switch (bytes.up_to(7)) {
        case 0: return -1;
        case 1: return wide ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int32_t>::min();
        case 2: return wide ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int32_t>::max();
        case 3: return limit + bytes.up_to(2);
        default: return bytes.up_to(spec.grouping == Grouping::m_grouped_indices ? spec.groups : limit);
    }
}

void draw_garbage_sizes(check::CaseSpec& spec, Bytes& bytes) {
    const std::int64_t count = spec.grouping == Grouping::m_grouped_indices ? spec.m : spec.groups;
    for (std::int64_t i = 0; i < count; ++i) {
        // Neighbouring rows mostly belong together.
        const bool repeats = i > 0 && spec.grouping == Grouping::m_grouped_indices && !bytes.one_in(4);
        spec.size_entries.push_back(repeats ? spec.size_entries.back() : random_entry(spec, bytes));
    }
    // Scale columns follow from the sizes, and validation wants enough for all of k.
    if (is_k_grouped(spec.grouping) && count > 0) spec.size_entries.back() = spec.k + bytes.up_to(3);
}

/// e2m1 holds pairs: along its packed dimension sizes are even, and so are gaps.
void make_packable(check::CaseSpec& spec) {
    const bool a_packs_m = a_is_transposed(spec.layout);
    const bool b_packs_n = b_is_transposed(spec.layout);
    if (spec.recipe.a.values == Format::e2m1) (a_packs_m ? spec.m : spec.k) &= ~std::int64_t{1};
    if (spec.recipe.b.values == Format::e2m1) (b_packs_n ? spec.n : spec.k) &= ~std::int64_t{1};
    for (auto [format, gaps] : {std::pair{spec.recipe.a.values, &spec.a_gaps}, {spec.recipe.b.values, &spec.b_gaps}}) {
        if (format == Format::e2m1) *gaps = {.element = 0, .row = gaps->row * 2, .group = gaps->group * 2};
    }
}

check::Gaps random_gaps(Bytes& bytes) {
    if (bytes.one_in(2)) return {};
    return {.element = bytes.one_in(4) ? bytes.up_to(3) : 0, .row = bytes.up_to(17), .group = bytes.up_to(33)};
}

void draw_strides(check::CaseSpec& spec, Bytes& bytes) {
    for (check::Gaps* gaps : {&spec.a_gaps, &spec.b_gaps, &spec.a_scale_gaps, &spec.b_scale_gaps, &spec.c_gaps,
                              &spec.d_gaps, &spec.bias_gaps}) {
        *gaps = random_gaps(bytes);
    }
    spec.a_scales_transposed = bytes.one_in(2);
    spec.b_scales_transposed = bytes.one_in(2);
    spec.shared_scales = bytes.one_in(2);
    spec.guard_pages = bytes.one_in(2);
}

void draw_options(check::CaseSpec& spec, Bytes& bytes) {
    using check::Distribution;
    spec.output = bytes.pick({Format::bf16, Format::f16, Format::f32});
    spec.distribution =
        bytes.pick({Distribution::normal, Distribution::abs_normal, Distribution::uniform, Distribution::normal_cubed,
                    Distribution::log_normal, Distribution::outliers, Distribution::sparse, Distribution::ones,
                    Distribution::exact_grid, Distribution::distinct_scales});
    spec.seed = bytes.word();
    spec.with_c = bytes.one_in(2);
    spec.in_place = spec.with_c && bytes.one_in(2);
    spec.with_bias = !spec.with_c && !is_k_grouped(spec.grouping) && bytes.one_in(2);
    spec.shared_bias = spec.with_bias && bytes.one_in(4);
    if (spec.with_bias) spec.bias_format = bytes.pick({Format::f32, Format::bf16});
    spec.alpha = check::is_exact(spec.distribution) ? bytes.pick({1.0F, 2.0F, 0.5F, -1.0F})
                                                    : bytes.pick({1.0F, 0.0F, -1.0F, 0.37F, 1e-3F, 300.0F});
    const auto along_k = k_block(spec.recipe.a.granularity) + k_block(spec.recipe.b.granularity);
    if (along_k == 0 && bytes.one_in(4)) spec.accumulation = Accumulation::unpromoted;
    if (bytes.one_in(4)) spec.reproducibility = Reproducibility::invariant;
}

}  // namespace

check::CaseSpec random_spec(Bytes& bytes) {
    check::CaseSpec spec;
    spec.grouping = static_cast<Grouping>(bytes.up_to(static_cast<std::int64_t>(all_groupings.back())));
    spec.recipe =
        all_recipes()[static_cast<std::size_t>(bytes.up_to(static_cast<std::int64_t>(all_recipes().size()) - 1))];
    spec.layout = bytes.pick({Layout::nt, Layout::nn, Layout::tn, Layout::tt});
    spec.m = random_size(bytes);
    spec.n = random_size(bytes);
    spec.k = random_size(bytes);
    if (spec.grouping != Grouping::dense) spec.groups = bytes.one_in(3) ? bytes.between(1, 20) : bytes.between(1, 4);
    spec.size_format = bytes.pick({Format::i32, Format::i64});
    spec.alignment = bytes.pick<std::int64_t>({128, 1, 2, 8, 16, 64, 100, 240});
    draw_strides(spec, bytes);
    while (work(spec) > largest_work) (spec.m > spec.n ? spec.m : spec.n) /= 2;
    make_packable(spec);
    draw_options(spec, bytes);
    const bool wide = spec.recipe.a.values == Format::f16 || spec.recipe.a.values == Format::f32 ||
                      spec.recipe.b.values == Format::f16 || spec.recipe.b.values == Format::f32;
    if (wide) spec.reproducibility = Reproducibility::repeatable;
    if (takes_sizes(spec.grouping) && bytes.one_in(2)) {
        draw_garbage_sizes(spec, bytes);
    } else if (spec.grouping == Grouping::m_grouped_indices) {
        spec.index_alignment = bytes.pick<std::int64_t>({1, 2, 16, 100});
    }
    return spec;
}

RandomCase::RandomCase(const check::CaseSpec& spec, Bytes& bytes) : case_(std::make_unique<check::Case>(spec)) {
    if (bytes.one_in(4)) repeat_inputs(bytes);
    if (bytes.one_in(4) && !spec.in_place) turn_output();
    if (takes_sizes(spec.grouping) && bytes.one_in(4)) spread_sizes(bytes);
    if (bytes.one_in(4)) replace_operands(bytes);
}

/// Stride 0 in one dimension of one input.
void RandomCase::repeat_inputs(Bytes& bytes) {
    Problem& p = case_->problem();
    struct Input {
        const char* name;
        Tensor* tensor;
    };
    const Input input = bytes.pick<Input>({{"a.values", &p.a.values},
                                           {"b.values", &p.b.values},
                                           {"a.scales", &p.a.scales},
                                           {"b.scales", &p.b.scales},
                                           {"c", &p.c},
                                           {"bias", &p.bias}});
    if (!input.tensor->given() || (input.tensor == &p.c && case_->spec().in_place)) return;
    const int i = static_cast<int>(bytes.up_to(input.tensor->shape.rank() - 1));
    if (input.tensor->format == Format::e2m1 && input.tensor->strides[i] == 1) return;
    const bool values = input.tensor == &p.a.values || input.tensor == &p.b.values;
    if (values && p.groups.grouping == Grouping::k_grouped_flat) return;  // has no gaps
    input.tensor->strides[i] = 0;
    replaced_ = true;  // other sums than the ones that were made to be exact
    changes_ += std::string(" ") + input.name + ".strides[" + std::to_string(i) + "]=0";
}

/// Column-major, in the same memory: there is no gap for it to run into.
void RandomCase::turn_output() {
    Tensor& d = case_->problem().d;
    const check::Gaps& gaps = case_->spec().d_gaps;
    if (gaps.element != 0 || gaps.row != 0) return;
    const int last = d.shape.rank() - 1;
    d.strides[last - 1] = 1;
    d.strides[last] = d.shape[last - 1];
    changes_ += " d column-major";
}

void RandomCase::spread_sizes(Bytes& bytes) {
    Tensor& sizes = case_->problem().groups.sizes;
    const std::int64_t distance = bytes.between(2, 5);
    const std::int64_t length = bits(sizes.format) / 8;
    check::Memory memory(static_cast<std::size_t>(sizes.shape[0] * distance * length), true);
    for (std::int64_t i = 0; i < sizes.shape[0]; ++i) {
        std::memcpy(memory.data() + i * distance * length, static_cast<std::byte*>(sizes.data) + i * length,
                    static_cast<std::size_t>(length));
    }
    sizes.data = memory.data();
    sizes.strides = {distance};
    memory_.push_back(std::move(memory));
    changes_ += " sizes.stride=" + std::to_string(distance);
}

/// Every code of the format, NaN and infinity among them, in memory that ends at a guard page.
void RandomCase::replace_bits(const std::string& name, Tensor& tensor, Bytes& bytes) {
    if (!tensor.given() || *std::min_element(tensor.shape.begin(), tensor.shape.end()) == 0) return;
    std::int64_t last = 0;
    for (int i = 0; i < tensor.shape.rank(); ++i) last += (tensor.shape[i] - 1) * tensor.strides[i];
    check::Memory memory(static_cast<std::size_t>(((last + 1) * bits(tensor.format) + 7) / 8), true);
    check::Random random(bytes.word());
    // Special codes are rare, so that most sums are of numbers.
    const bool tame = bytes.one_in(2);
    for (std::byte& byte : memory.bytes()) {
        const auto code = static_cast<std::uint8_t>(random.bits());
        byte = static_cast<std::byte>(tame ? code & 0xBBU : code);
    }
    tensor.data = memory.data();
    memory_.push_back(std::move(memory));
    replaced_ = true;
    changes_ += " " + name + "=bits";
}

void RandomCase::replace_operands(Bytes& bytes) {
    Problem& p = case_->problem();
    for (auto [name, operand] : {std::pair{"a", &p.a}, {"b", &p.b}}) {
        const Format values = operand->values.format;
        if (bytes.one_in(2)) {
            replace_bits(std::string(name) + ".values", operand->values, bytes);
            bounded_ = bounded_ && values != Format::bf16 && values != Format::f32;
        }
        if (bytes.one_in(4) && operand->scales.given()) {
            replace_bits(std::string(name) + ".scales", operand->scales, bytes);
            bounded_ = false;
        }
    }
}

}  // namespace tilewright::fuzz
