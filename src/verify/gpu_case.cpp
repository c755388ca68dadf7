#include "verify/gpu_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "formats/recipe_of.h"
#include "measure/span.h"
#include "problem/packed_problem.h"

namespace tilewright::verify {
namespace {

constexpr std::size_t alignment = 256;

template <typename Function>
void for_each_tensor(Problem& problem, const Function& function) {
    function("a", problem.a.values);
    function("a.scales", problem.a.scales);
    function("a.tensor_scale", problem.a.tensor_scale);
    function("b", problem.b.values);
    function("b.scales", problem.b.scales);
    function("b.tensor_scale", problem.b.tensor_scale);
    function("groups.sizes", problem.groups.sizes);
    function("c", problem.c);
    function("bias", problem.bias);
    function("d", problem.d);
}

std::size_t round_up(std::size_t value) { return (value + alignment - 1) / alignment * alignment; }

void synchronize() { cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", 0); }

}  // namespace

bool taken_by_gpu(Problem problem) {
    for_each_tensor(problem, [](const char*, Tensor& tensor) { tensor.device = {.kind = DeviceId::Kind::cuda}; });
    return validate(problem, Backend::hopper, Check::shapes).empty();
}

GpuCase::GpuCase(const check::Case& original, std::int64_t shift, int device, bool packs)
    : problem_(original.problem()) {
    const bool in_place = problem_.c.given() && problem_.c.data == problem_.d.data;
    if (packs && takes_packed_weights(problem_)) pack_weights_of(original);
    place_workspace();
    for_each_tensor(problem_, [&](const std::string& name, Tensor& tensor) {
        if (!tensor.given() || (in_place && name == "c")) return;
        const bool values = name == "a" || name == "b";  // TMA asks for 16 bytes there
        place(name, tensor, values ? 0 : shift);
    });
    image_.resize(round_up(image_.size()) + check::guard_band, check::poison);
    move_to(device);
    if (in_place) {
        const Tensor d = problem_.d;
        problem_.c.data = d.data;
        problem_.c.device = d.device;
    }
    synchronize();
}

void GpuCase::pack_weights_of(const check::Case& original) {
    packed_ = pack_weights(original.problem().b, packed_for(recipe_of(problem_.a)));
    packed_bytes_ = row_major(packed_.packed.data, Format::ue8m0, {packed_.packed.bytes});
    problem_.b = {.packed = packed_};
    place("b.packed", packed_bytes_, 0);
}

void GpuCase::place_workspace() {
    const std::int64_t bytes = workspace_bytes(problem_);
    if (bytes == 0) return;
    std::vector<std::byte> poisoned(static_cast<std::size_t>(bytes), check::poison);
    workspace_ = row_major(poisoned.data(), Format::ue8m0, {bytes});
    place("the workspace", workspace_, 0);
}

void GpuCase::place(const std::string& name, Tensor& tensor, std::int64_t shift) {
    const auto shifted = static_cast<std::size_t>(shift * bits(tensor.format) / 8);
    const Placed placed{.name = name,
                        .tensor = &tensor,
                        .offset = round_up(image_.size() + check::guard_band) + shifted,
                        .bytes = measure::span_bytes(tensor)};
    image_.resize(placed.offset + placed.bytes, check::poison);
    if (placed.bytes > 0) std::memcpy(image_.data() + placed.offset, tensor.data, placed.bytes);
    placed_.push_back(placed);
}

void GpuCase::move_to(int device) {
    memory_ = measure::Buffer(image_.size());
    memory_.upload(image_.data(), image_.size());
    for (const Placed& placed : placed_) {
        placed.tensor->data = memory_.data() + placed.offset;
        placed.tensor->device = {.kind = DeviceId::Kind::cuda, .index = device};
    }
    if (!packed_bytes_.given()) return;
    problem_.b.packed.data = packed_bytes_.data;
    problem_.b.packed.device = packed_bytes_.device;
}

void GpuCase::reset_output() const {
    const Placed& d = placed_output();
    memory_.upload(image_.data() + d.offset, d.bytes, d.offset);
    // The copy of pageable memory may still be under way, and non-blocking streams do not wait for it.
    synchronize();
}

void GpuCase::poison_output(cuda::StreamHandle stream) const {
    const Placed& d = placed_output();
    const cuda::Driver& driver = cuda::driver();
    driver.require(driver.call.fill_bytes_in_order(memory_.address() + d.offset,
                                                   std::to_integer<unsigned char>(check::poison), d.bytes, stream),
                   "cuMemsetD8Async", problem_.d.device.index);
}

void GpuCase::take_data(const GpuCase& other) {
    image_ = other.image_;
    memory_.upload(image_.data(), image_.size());
    synchronize();
}

std::string GpuCase::damage_at(std::size_t offset) const {
    for (const Placed& placed : placed_) {
        if (offset < placed.offset) {
            return fmt::format("the guard band {} bytes before {} was written", placed.offset - offset, placed.name);
        }
        if (offset < placed.offset + placed.bytes) {
            return fmt::format("{}, an input, was written at byte {}", placed.name, offset - placed.offset);
        }
    }
    return "the guard band after " + placed_.back().name + " was written";
}

std::vector<std::byte> GpuCase::output() const {
    std::vector<std::byte> bytes(placed_output().bytes);
    memory_.download(bytes.data(), bytes.size(), placed_output().offset);
    return bytes;
}

std::string GpuCase::damage() const {
    std::vector<std::byte> now(image_.size());
    memory_.download(now.data(), now.size());
    for (const Placed& placed : placed_) {
        if (placed.tensor != &workspace_ && placed.tensor != placed_output().tensor) continue;
        const auto at = static_cast<std::ptrdiff_t>(placed.offset);
        std::copy_n(image_.begin() + at, placed.bytes, now.begin() + at);
    }
    const auto [changed, was] = std::mismatch(now.begin(), now.end(), image_.begin());
    return changed == now.end() ? "" : damage_at(static_cast<std::size_t>(changed - now.begin()));
}

}  // namespace tilewright::verify
