#include "check/moe_case.h"

#include <fmt/format.h>
#include <tilewright/quantize.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "check/moe_rows.h"
#include "check/random.h"
#include "formats/element.h"

namespace tilewright::check {
namespace {

/// About normal, of mean 0 and variance 1: the sum of four uniform numbers.
double normal(std::uint64_t seed, std::int64_t index) {
    const std::uint64_t word = random_bits(seed, index);
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<double>(word >> (16 * i) & 0xFFFF) * 0x1p-16 - 0.5;
    return sum * std::sqrt(3.0);
}

std::int64_t count_of(const Dims& shape) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    return count;
}

/// A number in a hundred of `places` is large, so that neighbouring blocks have other scales.
std::vector<float> random_numbers(std::uint64_t seed, std::int64_t count, double scale) {
    std::vector<float> made(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
        const bool large = random_bits(seed + 1, i) % 100 == 0;
        made[static_cast<std::size_t>(i)] = static_cast<float>(normal(seed, i) * scale * (large ? 3 : 1));
    }
    return made;
}

std::uint64_t seed_of(std::uint64_t seed, const std::string& text) {
    return mix(seed ^ hash(std::as_bytes(std::span(text.data(), text.size()))));
}

std::int64_t any_number(std::uint64_t word, Format format) {
    constexpr std::array<std::int64_t, 6> some{
        std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(), std::int64_t{1} << 32,
        std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max(), -1};
    const std::int64_t number = some[word % some.size()];
    return format == Format::i32 ? static_cast<std::int32_t>(number) : number;
}

void set_integer(std::vector<std::byte>& bytes, Format format, std::int64_t index, std::int64_t value) {
    if (format == Format::i64) {
        std::memcpy(bytes.data() + index * 8, &value, 8);
    } else {
        const auto narrow = static_cast<std::int32_t>(value);
        std::memcpy(bytes.data() + index * 4, &narrow, 4);
    }
}

/// Row-major integers that own their memory until they are placed.
struct Integers {
    Integers(Format format, const Dims& shape)
        : bytes(static_cast<std::size_t>(row_major_bytes(format, shape))),
          tensor(row_major(static_cast<void*>(bytes.data()), format, shape)) {}
    void set(std::int64_t index, std::int64_t value) { set_integer(bytes, tensor.format, index, value); }

    std::vector<std::byte> bytes;
    Tensor tensor;
};

}  // namespace

std::string_view name(MoeForm form) {
    switch (form) {
        case MoeForm::tokens: return "tokens";
        case MoeForm::offsets: return "offsets";
        case MoeForm::aligned: return "aligned";
        case MoeForm::masked: return "masked";
    }
    return "an unknown form";
}

std::string_view name(MoeChoices choices) {
    switch (choices) {
        case MoeChoices::random: return "random";
        case MoeChoices::one_expert: return "one expert";
        case MoeChoices::none: return "none";
        case MoeChoices::wild: return "wild";
    }
    return "unknown choices";
}

std::string describe(const MoeSpec& spec) {
    std::string text =
        fmt::format("{} {} {} weights at {}, {} x {} of {} experts ({}), hidden {}, inner {}, {} to {}, {}, seed {}",
                    name(spec.form), name(spec.recipe), name(spec.unit.kind), name(spec.weights_at), spec.tokens,
                    spec.choices, spec.experts, name(spec.chosen), spec.hidden, spec.inner, name(spec.x),
                    name(spec.out), name(spec.arithmetic), spec.seed);
    const auto add = [&](bool is, std::string_view what) {
        if (is) text += fmt::format(", {}", what);
    };
    add(spec.unit.swiglu.interleaved, "interleaved");
    add(spec.shared > 0, fmt::format("{} shared", spec.shared));
    add(spec.round_up, "rounded up");
    add(spec.quantized, "quantized x");
    add(spec.packed, "packed weights");
    add(spec.indices == Format::i64, "int64");
    add(!spec.with_weights, "no weights");
    add(spec.weights != Format::f32, fmt::format("weights {}", name(spec.weights)));
    add(spec.with_map, "a map");
    add(spec.with_bias, fmt::format("biases {}", name(spec.bias)));
    add(spec.with_addend, spec.in_place ? "addend in place" : fmt::format("addend {}", name(spec.addend)));
    add(spec.gap > 0, fmt::format("gaps of {}", spec.gap));
    add(spec.chunk < spec.tokens, fmt::format("chunks of {}", spec.chunk));
    add(spec.reproducibility == Reproducibility::invariant, "invariant");
    return text;
}

std::vector<Recipe> moe_recipes() {
    std::vector<Recipe> recipes;
    for (const Recipe& recipe : all_recipes()) {
        const bool fp8_without_scales = recipe.a.granularity == Granularity::none && bits(recipe.a.values) < 16;
        if (row_block(recipe.a.granularity) <= 1 && !fp8_without_scales) recipes.push_back(recipe);
    }
    return recipes;
}

std::vector<std::pair<std::string, Tensor*>> tensors_of(Moe& layer) {
    std::vector<std::pair<std::string, Tensor*>> list{{"x", &layer.x},
                                                      {"quantized.values", &layer.quantized.values},
                                                      {"quantized.scales", &layer.quantized.scales},
                                                      {"quantized.tensor_scale", &layer.quantized.tensor_scale},
                                                      {"routing.experts", &layer.routing.experts},
                                                      {"routing.weights", &layer.routing.weights},
                                                      {"routing.map", &layer.routing.map},
                                                      {"groups.sizes", &layer.groups.sizes},
                                                      {"row_weights", &layer.row_weights},
                                                      {"up.values", &layer.up.values},
                                                      {"up.scales", &layer.up.scales},
                                                      {"up.tensor_scale", &layer.up.tensor_scale},
                                                      {"down.values", &layer.down.values},
                                                      {"down.scales", &layer.down.scales},
                                                      {"down.tensor_scale", &layer.down.tensor_scale},
                                                      {"up_bias", &layer.up_bias},
                                                      {"down_bias", &layer.down_bias},
                                                      {"addend", &layer.addend},
                                                      {"out", &layer.out}};
    std::erase_if(list, [](const auto& named) { return !named.second->given(); });
    return list;
}

MoeCase::MoeCase(const MoeSpec& spec) : spec_(spec) {
    layer_.activations = spec.recipe.a;
    layer_.round_up = spec.round_up;
    layer_.unit = spec.unit;
    layer_.weights_at = spec.weights_at;
    layer_.chunk = spec.chunk;
    layer_.arithmetic = spec.arithmetic;
    layer_.reproducibility = spec.reproducibility;
    place_weights();
    if (spec.form == MoeForm::tokens) {
        place_routing();
    } else {
        place_groups();
    }
    place_input();
    poison_rows();
    place_output();
}

/// Rows of x that belong to no group: a read of them spoils the result.
void MoeCase::poison_rows() {
    if (spec_.form == MoeForm::tokens || spec_.quantized) return;
    Input& x = inputs_.back();
    const std::vector<char> exists = written_rows();
    const std::int64_t pitch = layer_.x.strides[layer_.x.shape.rank() - 2] * bits(spec_.x) / 8;
    for (std::int64_t row = 0; row < std::ssize(exists); ++row) {
        if (exists[static_cast<std::size_t>(row)] != 0) continue;
        std::fill_n(x.memory.data() + row * pitch, spec_.hidden * bits(spec_.x) / 8, poison);
    }
    x.hash = hash(x.memory.with_guards());
}

/// A copy of a row-major tensor in memory of the case, with `gap` poisoned elements after each row.
Tensor MoeCase::placed(const std::string& name, const Tensor& tensor, std::int64_t gap) {
    Tensor made = tensor;
    const int last = tensor.shape.rank() - 1;
    const std::int64_t columns = tensor.shape[last];
    const std::int64_t rows = columns == 0 ? 0 : count_of(tensor.shape) / columns;
    if (gap > 0) {
        made.strides[last - 1] = columns + gap;
        if (last == 2) made.strides[0] = made.strides[1] * tensor.shape[1];
    }
    const std::int64_t row_bytes = rows == 0 ? 0 : row_major_bytes(tensor.format, tensor.shape) / rows;
    const std::int64_t pitch = row_bytes + gap * bits(tensor.format) / 8;
    Input input{.name = name,
                .memory = Memory(static_cast<std::size_t>(std::max<std::int64_t>(rows * pitch, 1)), false)};
    for (std::int64_t row = 0; row < rows; ++row) {
        std::memcpy(input.memory.data() + row * pitch, static_cast<const std::byte*>(tensor.data) + row * row_bytes,
                    static_cast<std::size_t>(row_bytes));
    }
    made.data = input.memory.data();
    input.hash = hash(input.memory.with_guards());
    inputs_.push_back(std::move(input));
    return made;
}

Tensor MoeCase::numbers(const std::string& name, Format format, const Dims& shape, double scale, std::int64_t gap) {
    const std::vector<float> made = random_numbers(seed_of(spec_.seed, name), count_of(shape), scale);
    std::vector<std::byte> bytes(static_cast<std::size_t>(row_major_bytes(format, shape)));
    for (std::size_t i = 0; i < made.size(); ++i) {
        formats::store(bytes.data(), format, static_cast<std::int64_t>(i), made[i]);
    }
    return placed(name, row_major(static_cast<void*>(bytes.data()), format, shape), gap);
}

void MoeCase::place_input() {
    Dims shape{spec_.tokens, spec_.hidden};
    if (spec_.form == MoeForm::masked) shape = {spec_.experts, spec_.tokens, spec_.hidden};
    if (!spec_.quantized) {
        layer_.x = numbers("x", spec_.x, shape, 1, spec_.gap);
        return;
    }
    const std::vector<float> x = random_numbers(seed_of(spec_.seed, "x"), count_of(shape), 1);
    const OwnedOperand codes =
        quantize(row_major(x.data(), Format::f32, shape), {.recipe = spec_.recipe.a, .round_up = spec_.round_up});
    layer_.quantized = codes.operand();
    for (auto& [name, tensor] : tensors_of(layer_)) {
        if (name.starts_with("quantized")) *tensor = placed(name, *tensor);
    }
}

void MoeCase::place_routing() {
    const Dims shape{spec_.tokens, spec_.choices};
    const std::int64_t globals = spec_.with_map ? 2 * spec_.experts : spec_.experts;
    Integers ids(spec_.indices, shape);
    for (std::int64_t i = 0; i < count_of(shape); ++i) {
        const std::uint64_t word = random_bits(spec_.seed + 17, i);
        std::int64_t id =
            static_cast<std::int64_t>(word % static_cast<std::uint64_t>(std::max<std::int64_t>(globals, 1)));
        if (spec_.chosen == MoeChoices::none) id = -1;
        if (spec_.chosen == MoeChoices::one_expert) id = globals / 2;
        if (spec_.chosen == MoeChoices::wild && word >> 40 & 1) id = any_number(word >> 41, spec_.indices);
        ids.set(i, id);
    }
    layer_.routing.experts = placed("routing.experts", ids.tensor);
    layer_.routing.shared = spec_.shared;
    if (spec_.with_weights) layer_.routing.weights = numbers("routing.weights", spec_.weights, shape, 0.7);
    if (!spec_.with_map) return;
    Integers map(Format::i32, {globals});
    for (std::int64_t i = 0; i < globals; ++i) {  // every other one is elsewhere; some point nowhere
        map.set(i, i % 7 == 3 ? spec_.experts + i : i % 2 == 0 ? i / 2 : -1);
    }
    layer_.routing.map = placed("routing.map", map.tensor);
}

void MoeCase::place_groups() {
    Integers sizes(spec_.indices, {spec_.experts});
    const bool masked = spec_.form == MoeForm::masked;
    std::int64_t end = 0;
    for (std::int64_t expert = 0; expert < spec_.experts; ++expert) {
        const std::uint64_t word = random_bits(spec_.seed + 19, expert);
        const std::int64_t most = masked ? spec_.tokens : 2 * spec_.tokens / std::max<std::int64_t>(spec_.experts, 1);
        std::int64_t rows = static_cast<std::int64_t>(word % static_cast<std::uint64_t>(most + 1));
        if (spec_.chosen == MoeChoices::none) rows = 0;
        if (spec_.chosen == MoeChoices::one_expert) rows = expert == spec_.experts / 2 ? spec_.tokens : 0;
        end += rows;
        std::int64_t size = masked ? rows : end;
        if (spec_.chosen == MoeChoices::wild && word >> 40 & 1) size = any_number(word >> 41, spec_.indices);
        sizes.set(expert, size);
        if (spec_.form == MoeForm::aligned) end = (end + 7) / 8 * 8;
    }
    layer_.groups.grouping = masked                           ? Grouping::m_grouped_masked
                             : spec_.form == MoeForm::aligned ? Grouping::m_grouped_aligned_offsets
                                                              : Grouping::m_grouped_offsets;
    layer_.groups.sizes = placed("groups.sizes", sizes.tensor);
    if (spec_.form == MoeForm::aligned) layer_.groups.alignment = 8;
    if (!spec_.with_weights) return;
    const Dims shape = masked ? Dims{spec_.experts, spec_.tokens} : Dims{spec_.tokens};
    layer_.row_weights = numbers("row_weights", Format::f32, shape, 0.7);
}

Operand MoeCase::weights(const std::string& name, const Dims& shape, OwnedPackedWeights& packed) {
    const double scale = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(shape[2], 1)));
    const std::vector<float> numbers = random_numbers(seed_of(spec_.seed, name), count_of(shape), scale);
    const OwnedOperand made = quantize(row_major(numbers.data(), Format::f32, shape), {.recipe = spec_.recipe.b});
    Operand operand = made.operand();
    if (spec_.packed) {
        packed = pack_weights(operand, packed_for(spec_.recipe.a));
        return {.packed = packed};
    }
    operand.values = placed(name + ".values", operand.values);
    if (operand.scales.given()) operand.scales = placed(name + ".scales", operand.scales);
    if (operand.tensor_scale.given()) operand.tensor_scale = placed(name + ".tensor_scale", operand.tensor_scale);
    return operand;
}

void MoeCase::place_weights() {
    const bool has_up = spec_.unit.kind != GatedUnit::Kind::relu_squared;
    const std::int64_t up_rows = (has_up ? 2 : 1) * spec_.inner;
    layer_.up = weights("up", {spec_.experts, up_rows, spec_.hidden}, packed_up_);
    layer_.down = weights("down", {spec_.experts, spec_.hidden, spec_.inner}, packed_down_);
    if (!spec_.with_bias) return;
    layer_.up_bias = numbers("up_bias", spec_.bias, {spec_.experts, up_rows}, 0.5);
    layer_.down_bias = numbers("down_bias", spec_.bias, {spec_.experts, spec_.hidden}, 0.5);
}

void MoeCase::place_output() {
    const Tensor& x = spec_.quantized ? layer_.quantized.values : layer_.x;
    Tensor out = row_major(static_cast<void*>(nullptr), spec_.out, x.shape);
    const int last = x.shape.rank() - 1;
    out.strides[last - 1] += spec_.gap;
    if (last == 2) out.strides[0] = out.strides[1] * x.shape[1];
    const std::int64_t rows = count_of(x.shape) / std::max<std::int64_t>(spec_.hidden, 1);
    const std::int64_t bytes = rows * out.strides[last - 1] * bits(spec_.out) / 8;
    output_ = Memory(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)), false);
    out.data = output_.data();
    layer_.out = out;
    if (spec_.with_addend) {
        const Format format = spec_.in_place ? spec_.out : spec_.addend;
        layer_.addend = numbers("addend", format, x.shape, 1, spec_.gap);
        addend_ = numbers_of(layer_.addend);
        if (spec_.in_place) {
            std::memcpy(output_.data(), layer_.addend.data, static_cast<std::size_t>(bytes));
            layer_.addend = out;
        }
    }
    pristine_.assign(output_.with_guards().begin(), output_.with_guards().end());
}

void MoeCase::reset_output() { std::copy(pristine_.begin(), pristine_.end(), output_.with_guards().begin()); }

std::vector<std::byte> MoeCase::output() const { return {output_.bytes().begin(), output_.bytes().end()}; }

void MoeCase::set_output(const std::vector<std::byte>& bytes) {
    std::copy(bytes.begin(), bytes.end(), output_.bytes().begin());
}

std::vector<char> MoeCase::written_rows() const {
    const MoeShape shape = moe_shape(layer_);
    const bool all = spec_.form == MoeForm::tokens;
    std::vector<char> written(static_cast<std::size_t>(shape.sources), all ? 1 : 0);
    if (all) return written;
    for (const MoeRow& row : moe_rows(layer_)) {
        if (row.expert >= 0) written[static_cast<std::size_t>(row.source)] = 1;
    }
    return written;
}

std::string MoeCase::damage() const {
    for (const Input& input : inputs_) {
        if (hash(input.memory.with_guards()) != input.hash) return input.name + ", an input, or around it, was written";
    }
    const std::span<std::byte> now = output_.with_guards();
    const std::int64_t begin = output_.data() - now.data();
    const std::int64_t width = bits(spec_.out) / 8, row = spec_.hidden * width, pitch = row + spec_.gap * width;
    const std::vector<char> written = written_rows();
    for (std::int64_t i = 0; i < std::ssize(now); ++i) {
        if (now[static_cast<std::size_t>(i)] == pristine_[static_cast<std::size_t>(i)]) continue;
        const std::int64_t at = i - begin;
        const bool in_row = at >= 0 && pitch > 0 && at / pitch < std::ssize(written) && at % pitch < row;
        if (in_row && written[static_cast<std::size_t>(at / pitch)] != 0) continue;
        return fmt::format("byte {} of out was written, which is in no row of a group", at);
    }
    return "";
}

}  // namespace tilewright::check
