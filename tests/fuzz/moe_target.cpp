// Fuzzes layers of experts on the CPU: any routing, form and size, also none at all. A layer has the bits of its parts
// and writes nothing else. A spoiled one is refused before anything is written.
#include <fmt/format.h>
#include <tilewright/moe.h>

#include <bit>
#include <limits>

#include "check/moe_case.h"
#include "check/moe_composition.h"
#include "fuzz/bytes.h"
#include "fuzz/target.h"

namespace tilewright::fuzz {
namespace {

using check::MoeCase;
using check::MoeForm;
using check::MoeSpec;

template <class Value, std::size_t count>
Value pick(const std::array<Value, count>& values, Bytes& bytes) {
    return values[static_cast<std::size_t>(bytes.up_to(static_cast<std::int64_t>(count) - 1))];
}

GatedUnit random_unit(Bytes& bytes) {
    const float infinity = std::numeric_limits<float>::infinity();
    GatedUnit unit{.kind = pick(all_gated_units, bytes)};
    unit.swiglu = {.alpha = bytes.pick({1.0F, 1.702F, 0.0F}),
                   .beta = bytes.pick({0.0F, 1.0F}),
                   .limit = bytes.pick({infinity, 7.0F, 0.25F, 0.0F}),
                   .interleaved = bytes.one_in(2)};
    unit.gate_bound = bytes.pick({4.0F, 0.5F, 1e-30F});
    unit.up_bound = bytes.pick({25.0F, 0.5F, infinity});
    return unit;
}

MoeSpec random_spec(Bytes& bytes) {
    static const std::vector<Recipe> recipes = check::moe_recipes();
    MoeSpec spec{.recipe = recipes[static_cast<std::size_t>(bytes.up_to(std::ssize(recipes) - 1))],
                 .seed = bytes.word() % 1000000};
    const bool fp4 = bits(spec.recipe.a.values) < 8 || bits(spec.recipe.b.values) < 8;
    const auto size = [&](std::int64_t most) {
        const std::int64_t number = bytes.one_in(4) ? bytes.between(1, 4) : bytes.between(1, most);
        return fp4 ? 2 * number : number;
    };
    spec.form = pick(check::all_moe_forms, bytes);
    spec.round_up = bytes.one_in(3);
    spec.unit = random_unit(bytes);
    spec.weights_at = pick(all_weights_at, bytes);
    spec.tokens = bytes.one_in(8) ? 0 : bytes.between(1, 30);
    spec.experts = bytes.one_in(16) ? bytes.between(1, 512) : bytes.between(1, 8);
    const std::int64_t most = spec.experts > 8 ? 8 : 150;
    spec.hidden = size(most);
    spec.inner = size(most);
    spec.choices = bytes.between(1, 16);
    if (spec.form == MoeForm::tokens) {
        if (bytes.one_in(3)) spec.shared = static_cast<int>(bytes.up_to(std::min<std::int64_t>(spec.experts, 3)));
        spec.with_map = bytes.one_in(4);
    }
    spec.chosen = pick(check::all_moe_choices, bytes);
    spec.x = bytes.pick({Format::bf16, Format::f16, Format::f32});
    spec.quantized = spec.weights_at != WeightsAt::input && bytes.one_in(3);
    spec.indices = bytes.pick({Format::i32, Format::i64});
    spec.with_weights = !bytes.one_in(4);
    if (spec.form == MoeForm::tokens) spec.weights = bytes.pick({Format::f32, Format::bf16, Format::f16});
    spec.with_bias = bytes.one_in(3);
    spec.bias = bytes.pick({Format::f32, Format::bf16});
    spec.with_addend = bytes.one_in(3);
    spec.addend = bytes.pick({Format::f32, Format::bf16, Format::f16});
    spec.in_place = bytes.one_in(3);
    spec.out = bytes.pick({Format::bf16, Format::f16, Format::f32});
    spec.gap = bytes.one_in(3) ? bytes.up_to(9) : 0;
    return spec;
}

std::string messages(const std::vector<Finding>& findings) {
    std::string text;
    for (const Finding& finding : findings) text += finding.message() + "\n";
    return text;
}

std::string run_well_formed(MoeCase& test, int threads) {
    if (const std::string found = messages(validate(test.layer())); !found.empty()) return "well-formed: " + found;
    run(test.layer(), {.threads = threads, .device = &h200()});
    const std::string difference = difference_from_parts(test);
    const std::string damage = test.damage();
    return difference.empty() || damage.empty() ? difference + damage : difference + "; " + damage;
}

std::int64_t random_number(Bytes& bytes) {
    switch (bytes.up_to(5)) {
        case 0: return static_cast<std::int64_t>(bytes.word());
        case 1: return std::int64_t{1} << bytes.up_to(62);
        case 2: return -bytes.up_to(300);
        case 3: return std::numeric_limits<std::int64_t>::min();
        default: return bytes.up_to(300);
    }
}

void spoil(Tensor& tensor, Bytes& bytes) {
    const int dimension = static_cast<int>(bytes.up_to(tensor.shape.rank() - 1));
    switch (bytes.up_to(5)) {
        case 0: tensor = {}; break;
        case 1: tensor.data = nullptr; break;
        case 2: tensor.format = static_cast<Format>(bytes.up_to(12)); break;
        case 3: tensor.shape[dimension] = random_number(bytes); break;
        case 4: tensor.strides[dimension] = random_number(bytes); break;
        default: tensor.device = {.kind = DeviceId::Kind::cuda, .index = 0};
    }
}

std::string spoil(Moe& layer, Bytes& bytes) {
    auto tensors = check::tensors_of(layer);
    auto& [name, tensor] = tensors[static_cast<std::size_t>(bytes.up_to(std::ssize(tensors) - 1))];
    switch (bytes.up_to(9)) {
        case 0: layer.unit.kind = static_cast<GatedUnit::Kind>(bytes.up_to(255)); return "unit.kind";
        case 1: layer.weights_at = static_cast<WeightsAt>(bytes.up_to(255)); return "weights_at";
        case 2: layer.groups.grouping = static_cast<Grouping>(bytes.up_to(12)); return "groups.grouping";
        case 3: layer.groups.alignment = random_number(bytes); return "groups.alignment";
        case 4: layer.routing.shared = static_cast<int>(random_number(bytes)); return "routing.shared";
        case 5: layer.chunk = -bytes.up_to(3); return "chunk";
        case 6: layer.activations.granularity = static_cast<Granularity>(bytes.up_to(9)); return "activations";
        default: spoil(*tensor, bytes); return name;
    }
}

/// A spoiled layer that is still one is not run: its memory may be too small.
std::string run_malformed(MoeCase& test, const Moe& malformed) {
    const std::vector<Finding> findings = validate(malformed);
    if (findings.empty()) return "";
    const std::vector<std::byte> before = test.output();
    try {
        run(malformed);
        return "run accepted what validate does not: " + messages(findings);
    } catch (const Error& error) {
        if (error.findings().size() != findings.size()) return "run and validate differ: " + messages(findings);
    }
    if (test.output() != before) return "out was written";
    return test.damage();
}

Tensor noise(Bytes& bytes) {
    Tensor tensor;
    if (bytes.one_in(3)) return tensor;
    tensor.data = std::bit_cast<void*>(static_cast<std::uintptr_t>(random_number(bytes)));
    tensor.format = static_cast<Format>(bytes.up_to(bytes.one_in(8) ? 255 : 9));
    const std::int64_t rank = bytes.one_in(8) ? bytes.up_to(6) : bytes.between(1, 3);
    for (std::int64_t i = 0; i < rank; ++i) tensor.shape.push_back(random_number(bytes));
    for (std::int64_t i = 0; i < (bytes.one_in(8) ? bytes.up_to(6) : rank); ++i) {
        tensor.strides.push_back(random_number(bytes));
    }
    tensor.device.kind = bytes.one_in(8) ? DeviceId::Kind::cuda : DeviceId::Kind::cpu;
    return tensor;
}

/// Shapes that fit one another come rarely from noise: only some tensors become it.
Outcome fuzz_noise(Moe layer, Bytes& bytes) {
    for (auto& [name, tensor] : check::tensors_of(layer)) {
        if (bytes.one_in(3)) *tensor = noise(bytes);
    }
    Outcome outcome{.kind = Kind::garbage, .call = "noise", .failure = {}};
    for (const Backend backend : {Backend::automatic, Backend::cpu, Backend::hopper}) {
        for (const Finding& finding : validate(layer, backend)) {
            if (finding.message().empty()) outcome.failure = "no message";
        }
        validate(layer, backend, Check::shapes);
    }
    if (workspace_bytes(layer) < 0) outcome.failure = "a workspace below zero";
    return outcome;
}

}  // namespace

Outcome fuzz(std::span<const std::uint8_t> data) {
    Bytes bytes(data);
    const std::int64_t kind = bytes.up_to(7);
    const int threads = static_cast<int>(bytes.between(1, 3));
    const MoeSpec spec = random_spec(bytes);
    Outcome outcome{.kind = Kind::well_formed, .call = describe(spec), .failure = {}};
    try {
        MoeCase test(spec);
        if (kind == 0) return fuzz_noise(test.layer(), bytes);
        if (kind > 2) {
            outcome.failure = run_well_formed(test, threads);
            return outcome;
        }
        outcome.kind = Kind::malformed;
        Moe malformed = test.layer();
        outcome.call += ", spoiled: " + spoil(malformed, bytes);
        outcome.failure = run_malformed(test, malformed);
    } catch (const std::exception& error) {
        outcome.failure = std::string("unexpected exception: ") + error.what();
    }
    return outcome;
}

}  // namespace tilewright::fuzz
