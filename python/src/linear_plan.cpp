#include "linear_plan.h"

#include "linear.h"
#include "torch_state.h"
#include "unlocked.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <tilewright/quantize.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace tilewright::python {
namespace {

constexpr Format byte = Format::e2m1;  // torch's dtype for it is uint8

/// The tensors that forward takes.
struct LayerTensors {
    SeenTensor x{};
    SeenTensor w{};
    SeenTensor bias{};
    SeenTensor ends{};
    SeenTensor main_grad{};
};

struct WantedGradients {
    bool x = false;
    bool w = false;
    bool bias = false;
    bool operator==(const WantedGradients&) const = default;
};

bool is_real(Format format) { return format == Format::f32 || format == Format::bf16 || format == Format::f16; }
bool is_master(Format format) { return format == Format::f32 || format == Format::bf16; }

/// Whether the tensors fit each other. If not, the general way says what does not.
bool fit(const LayerTensors& of) {
    const Tensor &x = of.x.tensor, &w = of.w.tensor, &bias = of.bias.tensor, &ends = of.ends.tensor;
    const int rank = w.shape.rank();
    if (!is_real(x.format) || !is_master(w.format) || rank != (ends.given() ? 3 : 2)) return false;
    if (x.device != w.device || x.shape[1] != w.shape[rank - 1]) return false;
    if (ends.given()) {
        const bool is_integer = ends.format == Format::i32 || ends.format == Format::i64;
        if (!is_integer || ends.device != x.device || ends.shape != Dims{w.shape[0]}) return false;
        if (of.x.sizes.count != 2) return false;
    }
    if (bias.given()) {
        const Dims expected = rank == 3 ? Dims{w.shape[0], w.shape[1]} : Dims{w.shape[0]};
        if (!is_master(bias.format) || bias.device != w.device || bias.shape != expected) return false;
    }
    const Tensor& main_grad = of.main_grad.tensor;
    return !main_grad.given() ||
           (is_master(main_grad.format) && main_grad.device == w.device && main_grad.shape == w.shape);
}

template <class Integer>
bool are_ascending(const Tensor& ends, std::int64_t tokens) {
    std::int64_t before = 0;
    for (std::int64_t i = 0; i < ends.shape[0]; ++i) {
        const std::int64_t end = static_cast<const Integer*>(ends.data)[i * ends.strides[0]];
        if (end < before || end > tokens) return false;
        before = end;
    }
    return true;
}

/// Whether the general way accepts the values of ends, which it checks on the CPU only.
bool are_sound(const Tensor& ends, std::int64_t tokens) {
    if (!ends.given() || ends.device.kind == DeviceId::Kind::cuda) return true;
    const bool wide = ends.format == Format::i64;
    return wide ? are_ascending<std::int64_t>(ends, tokens) : are_ascending<std::int32_t>(ends, tokens);
}

bool same_kind(const Tensor& x, const Tensor& y) {
    return x.shape == y.shape && x.strides == y.strides && x.format == y.format && x.device == y.device;
}

bool same_kind(const LayerTensors& x, const LayerTensors& y) {
    return x.x.sizes == y.x.sizes && same_kind(x.x.tensor, y.x.tensor) && same_kind(x.w.tensor, y.w.tensor) &&
           same_kind(x.bias.tensor, y.bias.tensor) && same_kind(x.ends.tensor, y.ends.tensor) &&
           same_kind(x.main_grad.tensor, y.main_grad.tensor);
}

std::size_t hash_of(const LayerTensors& tensors) {
    std::size_t hash = 0;
    for (const Dims* dims : {&tensors.x.tensor.shape, &tensors.w.tensor.shape}) {
        for (const std::int64_t size : *dims) hash = hash * 0x9E3779B97F4A7C15U + static_cast<std::size_t>(size);
    }
    return hash;
}

/// Hands out parts of memory that begin at multiples of 128 bytes. Without memory, addresses are offsets.
class Parts {
public:
    Parts(void* memory, DeviceId device) : begin_(reinterpret_cast<std::uintptr_t>(memory)), device_(device) {}

    /// Scales of 1x128 have rows adjacent, each at a multiple of 16 bytes: TMA loads them from this order.
    Operand operand(const OperandRecipe& recipe, const OperandShape& shape) {
        Operand made{.values = tensor(recipe.values, shape.values), .granularity = recipe.granularity};
        if (recipe.granularity == Granularity::block_1x128) {
            const std::int64_t pitch = (shape.scales[0] + 3) / 4 * 4;
            made.scales = tensor(recipe.scales, {shape.scales[1], pitch});
            made.scales.shape = shape.scales;
            made.scales.strides = {1, pitch};
        } else if (recipe.granularity != Granularity::none) {
            made.scales = tensor(recipe.scales, shape.scales);
        }
        return made;
    }

    std::int64_t bytes() const { return bytes_; }
    void* end() const { return reinterpret_cast<void*>(begin_ + static_cast<std::uintptr_t>(bytes_)); }

private:
    Tensor tensor(Format format, const Dims& shape) {
        constexpr std::int64_t alignment = 128;
        Tensor made = row_major(end(), format, shape);
        made.device = device_;
        bytes_ += (row_major_bytes(format, shape) + alignment - 1) / alignment * alignment;
        return made;
    }

    std::uintptr_t begin_;
    DeviceId device_;
    std::int64_t bytes_ = 0;
};

nb::object tuple_of(const Dims& dims) {
    nb::object made = nb::steal(PyTuple_New(dims.rank()));
    for (int i = 0; i < dims.rank(); ++i) NB_TUPLE_SET_ITEM(made.ptr(), i, PyLong_FromLongLong(dims[i]));
    return made;
}

/// A part whose address is an offset. Scales of 1x128 end with the last row's padding.
nb::object place_of(const Tensor& part) {
    if (!part.given()) return nb::none();
    const auto begin = reinterpret_cast<std::uintptr_t>(part.data);
    std::int64_t elements = 1;
    for (int i = 0; i < part.shape.rank(); ++i) {
        elements = std::max(elements, part.shape[i] * part.strides[i]);
    }
    const std::uintptr_t end = begin + static_cast<std::uintptr_t>(elements * bits(part.format) / 8);
    const std::string_view format = name(part.format);
    return nb::make_tuple(begin, end, nb::str(format.data(), format.size()), tuple_of(part.shape),
                          tuple_of(part.strides));
}

/// The operands that forward keeps for backward, in the bytes of one tensor.
struct Kept {
    Operand x{};
    Operand w{};
};

/// New tensors of torch with the same sizes, without gaps.
class NewTensor {
public:
    NewTensor(const Sizes& sizes, Format format, nb::object device)
        : sizes_(sizes.tuple()),
          strides_(sizes.row_major_strides().tuple()),
          format_(format),
          device_(std::move(device)) {}

    nb::object make() const { return new_tensor(sizes_, strides_, format_, device_); }

private:
    nb::object sizes_;
    nb::object strides_;
    Format format_;
    nb::object device_;
};

Sizes one_size(std::int64_t size) { return {.values = {size}, .count = 1}; }

/// Runs `work` with that many bytes of torch's memory, which are given back when it has returned.
template <class Work>
void run_with_bytes(std::int64_t bytes, DeviceId device, const nb::object& torch_device, const char* source,
                    const Work& work) {
    const auto words = [&](const std::vector<Finding>& found) { return in_layers_words(found, source); };
    bool has_run = false;
    run_unlocked(
        [&] {
            const BorrowedTensor memory = bytes > 0 ? torch_bytes(bytes, device) : BorrowedTensor();
            if (bytes > 0 && !memory.is_valid()) return;
            work(bytes > 0 ? const_cast<void*>(memory.data()) : nullptr);
            has_run = true;
        },
        words);
    if (has_run) return;
    const nb::object memory = NewTensor(one_size(bytes), byte, torch_device).make();  // or torch's error
    run_unlocked([&] { work(torch_address(memory)); }, words);
}

/// [rows of `like`, columns], row-major, with the sizes of `like` but the last.
SeenTensor matrix_like(const SeenTensor& like, std::int64_t columns) {
    SeenTensor made{
        .tensor = row_major(static_cast<void*>(nullptr), like.tensor.format, {like.tensor.shape[0], columns}),
        .sizes = like.sizes};
    made.tensor.device = like.tensor.device;
    made.sizes.last() = columns;
    return made;
}

/// W's gradient [groups, N, K]: a dense layer is one group.
Tensor in_groups(Tensor matrix) {
    if (matrix.shape.rank() == 3) return matrix;
    const Dims shape = matrix.shape, strides = matrix.strides;
    matrix.shape = {1, shape[0], shape[1]};
    matrix.strides = {shape[0] * strides[0], strides[0], strides[1]};
    return matrix;
}

Tensor at_address(Tensor tensor, void* address) {
    tensor.data = address;
    return tensor;
}

/// The facts that calls share whose tensors differ only in their addresses.
class LinearPlan {
public:
    LinearPlan(std::shared_ptr<const LinearWords> words, bool requantizes, const LayerTensors& of,
               const WantedGradients& wanted, nb::object torch_device)
        : words_(std::move(words)),
          of_(of),
          wanted_(wanted),
          requantizes_(requantizes),
          torch_device_(std::move(torch_device)),
          y_(matrix_like(of.x, of.w.tensor.shape[of.w.tensor.shape.rank() - 2])),
          dx_(matrix_like(of.x, of.x.tensor.shape[1])),
          new_y_(y_.sizes, y_.tensor.format, torch_device_),
          new_dx_(dx_.sizes, dx_.tensor.format, torch_device_),
          new_dw_(of.w.sizes, of.w.tensor.format, torch_device_),
          w_shape_{of.w.tensor.shape, scale_shape(recipe().weights.granularity, of.w.tensor.shape)},
          x_shape_(kept_shape(recipe(), of.x.tensor.shape[0], of.x.tensor.shape[1], groups())) {
        Parts all(nullptr, device());
        const Kept kept = take_kept(all);
        kept_bytes_ = all.bytes();
        new_kept_ = NewTensor(one_size(kept_bytes_), byte, torch_device_);
        Parts copy(nullptr, device());
        const Operand w = copy.operand(recipe().weights, w_shape_);
        copy_bytes_ = copy.bytes();
        forward_bytes_ = workspace_bytes(forward_call(of, kept.x, w, y_.tensor));
        if (!wanted.x && !wanted.w) return;
        const Tensor dw = of.main_grad.tensor.given() ? of.main_grad.tensor : new_dw(nullptr);
        backward_bytes_ = workspace_bytes(backward_call(y_.tensor, kept.x, w, of.ends.tensor, dx_.tensor, dw));
    }

    bool serves(const LayerTensors& given, const WantedGradients& wanted) const {
        return wanted == wanted_ && same_kind(given, of_);
    }
    const WantedGradients& wanted() const { return wanted_; }
    bool is_differentiable() const { return wanted_.x || wanted_.w || wanted_.bias; }
    bool reads_w_again() const { return requantizes_ && wanted_.x; }

    /// (Y, the bytes that backward reads or None), for tensors of this kind at these addresses.
    nb::object forward(const LayerTensors& at) const {
        const nb::object memory = kept_bytes_ > 0 ? new_kept_->make() : nb::object(nb::none());
        const nb::object y = new_y_.make();
        Parts parts(kept_bytes_ > 0 ? torch_address(memory) : nullptr, device());
        const Kept kept = take_kept(parts);
        const Tensor written = at_address(y_.tensor, torch_address(y));
        const std::int64_t copied = kept.w.values.given() ? 0 : copy_bytes_;
        RunOptions how = options();
        run_with_bytes(copied + forward_bytes_, device(), torch_device_, "x", [&](void* bytes) {
            Parts scratch(bytes, device());
            const Operand w = copied > 0 ? scratch.operand(recipe().weights, w_shape_) : kept.w;
            how.workspace = {scratch.end(), forward_bytes_};
            run(forward_call(at, kept.x, w, written), how);
        });
        return nb::make_tuple(y, memory);
    }

    /// (dX or None, dW or None). `memory`: of forward; `w_given`: W, if it is read again. None instead: something sees
    /// operators, or a tensor is not of the kind that forward expects.
    nb::object backward(nb::handle dy_given, nb::handle memory, nb::handle w_given, nb::handle ends,
                        nb::handle main_grad) const {
        if (!torch_is_unobserved() || torch_records_gradients()) return nb::none();
        nb::object dy_rows = nb::borrow(dy_given);
        SeenTensor dy;
        if (!see_matrix(dy_rows, dy)) return nb::none();
        if (dy.tensor.strides != y_.tensor.strides) {
            dy_rows = dy_rows.attr("contiguous")();
            if (!see_matrix(dy_rows, dy)) return nb::none();
        }
        if (dy.sizes != y_.sizes || !same_kind(dy.tensor, y_.tensor)) return nb::none();
        if (!wanted_.x && !wanted_.w) return nb::make_tuple(nb::none(), nb::none());
        SeenTensor bytes;
        LayerTensors at;
        if (!see(memory, bytes) || !see(ends, at.ends) || !see(main_grad, at.main_grad)) return nb::none();
        if (!is_kept(bytes.tensor) || !same_kind(at.ends.tensor, of_.ends.tensor)) return nb::none();
        if (!same_kind(at.main_grad.tensor, of_.main_grad.tensor)) return nb::none();
        if (reads_w_again() && (!see(w_given, at.w) || !same_kind(at.w.tensor, of_.w.tensor))) return nb::none();
        nb::object dx = nb::none();
        nb::object dw = nb::none();
        Tensor dx_written;
        Tensor dw_written;
        if (wanted_.x) {
            dx = new_dx_.make();
            dx_written = at_address(dx_.tensor, torch_address(dx));
        }
        if (wanted_.w && of_.main_grad.tensor.given()) {
            dw_written = at.main_grad.tensor;
        } else if (wanted_.w) {
            dw = new_dw_.make();
            dw_written = new_dw(torch_address(dw));
        }
        Parts parts(bytes.tensor.data, device());
        const Kept kept = take_kept(parts);
        const std::int64_t copied = reads_w_again() ? copy_bytes_ : 0;
        RunOptions how = options();
        run_with_bytes(copied + backward_bytes_, device(), torch_device_, "dy", [&](void* scratch_bytes) {
            Parts scratch(scratch_bytes, device());
            const Operand w = copied > 0 ? scratch.operand(recipe().weights, w_shape_) : kept.w;
            how.workspace = {scratch.end(), backward_bytes_};
            if (copied > 0) quantize(at.w.tensor, {.recipe = recipe().weights}, w, {.stream = how.stream});
            run(backward_call(dy.tensor, kept.x, w, at.ends.tensor, dx_written, dw_written), how);
        });
        return nb::make_tuple(dx, dw);
    }

    /// (begin, end, format, shape, strides) of values and scales of what was kept of X, then of W; None if nothing was.
    nb::object parts() const {
        Parts parts(nullptr, device());
        const Kept kept = take_kept(parts);
        return nb::make_tuple(place_of(kept.x.values), place_of(kept.x.scales), place_of(kept.w.values),
                              place_of(kept.w.scales));
    }

private:
    const LinearRecipe& recipe() const { return words_->options.recipe; }
    DeviceId device() const { return of_.x.tensor.device; }
    std::int64_t groups() const { return of_.ends.tensor.given() ? of_.ends.tensor.shape[0] : 0; }

    RunOptions options() const {
        const bool on_gpu = device().kind == DeviceId::Kind::cuda;
        return {.stream = on_gpu ? torch_stream(device().index) : nullptr,
                .overlap = words_->overlap,
                .cancelled = &signal_arrived,
                .device = words_->planned.get()};
    }

    Kept take_kept(Parts& parts) const {
        Kept kept;
        if (wanted_.w) kept.x = parts.operand(recipe().columns.value_or(recipe().activations), x_shape_);
        if (wanted_.x && !requantizes_) kept.w = parts.operand(recipe().weights, w_shape_);
        return kept;
    }

    bool is_kept(const Tensor& bytes) const {
        if (kept_bytes_ == 0) return !bytes.given();
        return bytes.shape == Dims{kept_bytes_} && bytes.format == Format::ue8m0 && bytes.device == device() &&
               bytes.strides[0] == 1;
    }

    Tensor new_dw(void* address) const {
        Tensor made = row_major(address, of_.w.tensor.format, of_.w.tensor.shape);
        made.device = device();
        return made;
    }

    LinearForward forward_call(const LayerTensors& at, const Operand& kept, const Operand& w, const Tensor& y) const {
        return {.options = words_->options,
                .x = at.x.tensor,
                .w = w,
                .w_real = at.w.tensor,
                .bias = at.bias.tensor,
                .ends = at.ends.tensor,
                .y = y,
                .kept = kept};
    }

    LinearBackward backward_call(const Tensor& dy, const Operand& kept, const Operand& w, const Tensor& ends,
                                 const Tensor& dx, const Tensor& dw) const {
        LinearBackward call{.options = words_->options, .dy = dy, .ends = ends};
        if (wanted_.x) {
            call.w = w;
            call.dx = dx;
        }
        if (wanted_.w) {
            call.kept = kept;
            call.dw = in_groups(dw);
            call.adds = of_.main_grad.tensor.given();
        }
        return call;
    }

    std::shared_ptr<const LinearWords> words_;
    LayerTensors of_;
    WantedGradients wanted_;
    bool requantizes_;  // keeps W itself, and backward quantizes it
    nb::object torch_device_;
    SeenTensor y_;
    SeenTensor dx_;
    NewTensor new_y_;
    NewTensor new_dx_;
    NewTensor new_dw_;
    OperandShape w_shape_;
    OperandShape x_shape_;  // of what is kept of X
    std::int64_t kept_bytes_ = 0;
    std::optional<NewTensor> new_kept_{};
    std::int64_t copy_bytes_ = 0;
    std::int64_t forward_bytes_ = 0;
    std::int64_t backward_bytes_ = 0;
};

/// A call from forward to backward.
struct LinearCall {
    std::shared_ptr<const LinearPlan> plan;
    LayerTensors at;

    nb::object forward() const { return plan->forward(at); }
};

/// The calls of layers with the same options.
class LinearCalls {
public:
    LinearCalls(std::string_view recipe, std::string_view gradient_format, bool promoted, bool requantizes,
                std::string_view in_force)
        : words_(std::make_shared<const LinearWords>(recipe, gradients_word(gradient_format), promoted, in_force)),
          requantizes_(requantizes) {}

    std::optional<LinearCall> call(nb::handle x, nb::handle w, nb::handle bias, nb::handle ends, nb::handle main_grad) {
        LayerTensors at;
        if (!see_matrix(x, at.x) || w.is_none() || !see(w, at.w) || !see(bias, at.bias) || !see(ends, at.ends))
            return {};
        if (!see(main_grad, at.main_grad) || !torch_is_unobserved()) return {};
        WantedGradients wanted;
        if (torch_records_gradients()) {
            wanted = {.x = requires_gradient(x), .w = requires_gradient(w), .bias = requires_gradient(bias)};
        }
        std::shared_ptr<const LinearPlan> plan = known(at, wanted);
        if (!plan) plan = made(at, wanted, x);
        if (!plan || !are_sound(at.ends.tensor, at.x.tensor.shape[0])) return {};
        return LinearCall{std::move(plan), at};
    }

private:
    static constexpr std::size_t limit = 1024;

    std::shared_ptr<const LinearPlan> known(const LayerTensors& at, const WantedGradients& wanted) const {
        const auto [begin, end] = plans_.equal_range(hash_of(at));
        for (auto plan = begin; plan != end; ++plan) {
            if (plan->second->serves(at, wanted)) return plan->second;
        }
        return nullptr;
    }

    std::shared_ptr<const LinearPlan> made(const LayerTensors& at, const WantedGradients& wanted, nb::handle x) {
        if (!fit(at)) return nullptr;
        // Then W has another copy for dgrad, which forward does not make.
        if (wanted.x && words_->options.recipe.backward_weights) return nullptr;
        if (plans_.size() >= limit) plans_.clear();
        auto plan = std::make_shared<const LinearPlan>(words_, requantizes_, at, wanted, x.attr("device"));
        plans_.emplace(hash_of(at), plan);
        return plan;
    }

    std::shared_ptr<const LinearWords> words_;
    bool requantizes_;
    std::unordered_multimap<std::size_t, std::shared_ptr<const LinearPlan>> plans_{};
};

}  // namespace

void bind_linear_plan(nb::module_& m) {
    nb::class_<LinearCall>(m, "LinearCall", "A call of a layer, from forward to backward.")
        .def_prop_ro(
            "is_differentiable", [](const LinearCall& call) { return call.plan->is_differentiable(); },
            "Whether a gradient is wanted.")
        .def_prop_ro(
            "reads_w_again", [](const LinearCall& call) { return call.plan->reads_w_again(); },
            "Whether backward quantizes W itself.")
        .def_prop_ro(
            "wants_w", [](const LinearCall& call) { return call.plan->wanted().w; }, "Of the gradients.")
        .def_prop_ro(
            "wants_bias", [](const LinearCall& call) { return call.plan->wanted().bias; }, "Of the gradients.")
        .def_prop_ro(
            "w_shape", [](const LinearCall& call) { return tuple_of(call.at.w.tensor.shape); }, "Of W.")
        .def_prop_ro(
            "w_format", [](const LinearCall& call) { return name(call.at.w.tensor.format); }, "Of W.")
        .def_prop_ro(
            "bias_format",
            [](const LinearCall& call) -> std::optional<std::string_view> {
                if (!call.at.bias.tensor.given()) return {};
                return name(call.at.bias.tensor.format);
            },
            "Of the bias; None without.")
        .def("forward", &LinearCall::forward, "Y, and the bytes that backward needs, or None.")
        .def(
            "backward",
            [](const LinearCall& call, nb::handle dy, nb::handle kept, nb::handle w, nb::handle ends,
               nb::handle main_grad) { return call.plan->backward(dy, kept, w, ends, main_grad); },
            nb::arg("dy").none(), nb::arg("kept").none(), nb::arg("w").none(), nb::arg("ends").none(),
            nb::arg("main_grad").none(), "dX and dW, each or None. None: the general way has to take the call.")
        .def(
            "parts", [](const LinearCall& call) { return call.plan->parts(); },
            "Where the operands are in the bytes that forward kept.");
    nb::class_<LinearCalls>(m, "LinearCalls", "The calls of layers that have the same options.")
        .def(nb::init<std::string_view, std::string_view, bool, bool, std::string_view>(), nb::arg("recipe"),
             nb::arg("gradient_format"), nb::arg("promoted"), nb::arg("requantizes"), nb::arg("options"))
        .def("call", &LinearCalls::call, nb::arg("x").none(), nb::arg("w").none(), nb::arg("bias").none(),
             nb::arg("ends").none(), nb::arg("main_grad").none(),
             "The call. None: the general way has to take it, because it is wrong, observed or unusual.");
}

}  // namespace tilewright::python
