// Ways to make a call malformed, and descriptions made of nothing but noise.
#include "fuzz/random_case.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace tilewright::fuzz {
namespace {

struct Named {
    const char* name;
    Tensor* tensor;
};

std::array<Named, 10> tensors(Problem& p) {
    return {{{"a.values", &p.a.values},
             {"a.scales", &p.a.scales},
             {"a.tensor_scale", &p.a.tensor_scale},
             {"b.values", &p.b.values},
             {"b.scales", &p.b.scales},
             {"b.tensor_scale", &p.b.tensor_scale},
             {"c", &p.c},
             {"bias", &p.bias},
             {"d", &p.d},
             {"groups.sizes", &p.groups.sizes}}};
}

Named random_tensor(Problem& p, Bytes& bytes) {
    std::vector<Named> given;
    for (const Named& named : tensors(p)) {
        if (named.tensor->given()) given.push_back(named);
    }
    return given.empty() ? Named{"d", &p.d}
                         : given[static_cast<std::size_t>(bytes.up_to(static_cast<std::int64_t>(given.size()) - 1))];
}

bool is_empty(const Tensor& tensor) {
    return std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
}

std::string spoil_tensor(Problem& p, Bytes& bytes) {
    const auto [name, tensor] = random_tensor(p, bytes);
    const int last = std::max(tensor->shape.rank() - 1, 0);
    const std::string subject(name);
    switch (bytes.up_to(8)) {
        case 0:
            if (tensor == &p.c || tensor == &p.bias) break;
            *tensor = {};
            return subject + " not given";
        case 1:
            tensor->shape[std::min(last, Dims::capacity - 1)] = -bytes.between(1, 300);
            return subject + " of negative size";
        case 2: tensor->shape.push_back(1); return subject + ": a dimension without a stride";
        case 3: tensor->strides.push_back(1); return subject + ": a stride without a dimension";
        case 4:
            tensor->strides[std::min(last, Dims::capacity - 1)] = -bytes.between(1, 300);
            return subject + " of negative stride";
        case 5: tensor->shape[0] = std::numeric_limits<std::int64_t>::max() - bytes.up_to(3); return subject + " huge";
        case 6: tensor->format = static_cast<Format>(bytes.between(10, 255)); return subject + " of unknown format";
        case 7:
            if (is_empty(*tensor)) break;
            tensor->data = nullptr;
            return subject + " null";
        default:
            tensor->device = {.kind = DeviceId::Kind::cuda, .index = static_cast<int>(bytes.up_to(7))};
            return subject + " on a GPU";
    }
    p.sm_limit = -1;
    return "sm_limit";
}

std::string spoil_sizes(Problem& p, Bytes& bytes) {
    const auto [name, tensor] = random_tensor(p, bytes);
    // One more of a size that another tensor has as well; the number of scale columns may exceed its least in
    // k-grouped calls, and one scale may serve all.
    const bool scales =
        tensor == &p.a.scales || tensor == &p.b.scales || tensor == &p.a.tensor_scale || tensor == &p.b.tensor_scale;
    if (scales) {
        for (int i = 0; i < tensor->shape.rank() && i < Dims::capacity; ++i) tensor->shape[i] += 301;
        if (!is_k_grouped(p.groups.grouping)) return std::string(name) + " grown";
        tensor->shape[0] += 1;
        return std::string(name) + " grown in a k-grouped call";
    }
    // Where rows have indices, b alone says how many groups there are.
    const bool says_groups = tensor == &p.b.values && p.groups.grouping == Grouping::m_grouped_indices;
    const int i =
        static_cast<int>(bytes.between(says_groups ? 1 : 0, std::min(tensor->shape.rank(), Dims::capacity) - 1));
    tensor->shape[i] += 1;
    return std::string(name) + " one longer in dimension " + std::to_string(i);
}

std::string spoil_output(Problem& p, Bytes& bytes) {
    Tensor& d = p.d;
    const int last = d.shape.rank() - 1;
    const bool several = !is_empty(d) && (d.shape[last] > 1 || d.shape[last - 1] > 1);
    switch (bytes.up_to(3)) {
        case 0:
            if (!several) break;
            d.strides[d.shape[last] > 1 ? last : last - 1] = 0;
            return "d repeats an element";
        case 1:
            if (is_empty(d) || is_empty(p.a.values)) break;
            d.data = p.a.values.data;
            return "d over a";
        case 2:
            d.format = bytes.pick({Format::e4m3, Format::e2m1, Format::ue8m0, Format::i32});
            return "d of a format it cannot have";
        default:
            if (!p.c.given()) break;
            p.c.format = p.d.format == Format::f32 ? Format::bf16 : Format::f32;
            return "c of another format";
    }
    p.expected_m = -1;
    return "expected_m";
}

std::string spoil_word(Problem& p, Bytes& bytes) {
    const auto word = static_cast<std::uint8_t>(bytes.between(7, 255));
    switch (bytes.up_to(8)) {
        case 0: p.layout = static_cast<Layout>(word); return "layout";
        case 1: p.groups.grouping = static_cast<Grouping>(word); return "grouping";
        case 2: p.a.granularity = static_cast<Granularity>(word); return "a.granularity";
        case 3: p.b.granularity = static_cast<Granularity>(word); return "b.granularity";
        case 4: p.accumulation = static_cast<Accumulation>(word); return "accumulation";
        case 5: p.arithmetic = static_cast<Arithmetic>(word); return "arithmetic";
        case 6: p.reproducibility = static_cast<Reproducibility>(word); return "reproducibility";
        case 7:
            p.a.granularity = Granularity::block_128x128;
            p.b.granularity = Granularity::row;
            return "128x128 of a with row of b";
        default: p.sm_limit = static_cast<int>(-bytes.between(1, 1000)); return "sm_limit";
    }
}

std::int64_t random_number(Bytes& bytes) {
    switch (bytes.up_to(7)) {
        case 0: return static_cast<std::int64_t>(bytes.word());
        case 1: return std::int64_t{1} << bytes.up_to(62);
        case 2: return -bytes.up_to(300);
        case 3: return std::numeric_limits<std::int64_t>::max() - bytes.up_to(1);
        case 4: return std::numeric_limits<std::int64_t>::min();
        default: return bytes.up_to(300);
    }
}

Tensor random_noise(Bytes& bytes) {
    Tensor tensor;
    if (bytes.one_in(4)) return tensor;
    tensor.data = std::bit_cast<void*>(static_cast<std::uintptr_t>(random_number(bytes)));
    tensor.format = static_cast<Format>(bytes.one_in(8) ? bytes.up_to(255) : bytes.up_to(9));
    const std::int64_t rank = bytes.one_in(8) ? bytes.up_to(6) : bytes.between(1, 3);
    const std::int64_t strides = bytes.one_in(8) ? bytes.up_to(6) : rank;
    for (std::int64_t i = 0; i < rank; ++i) tensor.shape.push_back(random_number(bytes));
    for (std::int64_t i = 0; i < strides; ++i) tensor.strides.push_back(random_number(bytes));
    tensor.device.kind = bytes.one_in(8) ? DeviceId::Kind::cuda : DeviceId::Kind::cpu;
    tensor.device.index = static_cast<int>(bytes.up_to(2));
    return tensor;
}

}  // namespace

std::string spoil(Problem& problem, Bytes& bytes) {
    switch (bytes.up_to(3)) {
        case 0: return spoil_sizes(problem, bytes);
        case 1: return spoil_output(problem, bytes);
        case 2: return spoil_word(problem, bytes);
        default: return spoil_tensor(problem, bytes);
    }
}

Problem random_garbage(Bytes& bytes) {
    Problem p;
    for (const Named& named : tensors(p)) *named.tensor = random_noise(bytes);
    const auto word = [&](std::int64_t last) { return bytes.one_in(16) ? bytes.up_to(255) : bytes.up_to(last); };
    p.a.granularity = static_cast<Granularity>(word(6));
    p.b.granularity = static_cast<Granularity>(word(6));
    p.layout = static_cast<Layout>(word(3));
    p.groups.grouping = static_cast<Grouping>(word(6));
    p.groups.alignment = random_number(bytes);
    p.accumulation = static_cast<Accumulation>(word(1));
    p.arithmetic = static_cast<Arithmetic>(word(1));
    p.reproducibility = static_cast<Reproducibility>(word(1));
    p.sm_limit = static_cast<int>(random_number(bytes));
    p.expected_m = random_number(bytes);
    return p;
}

}  // namespace tilewright::fuzz
