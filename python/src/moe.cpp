#include "moe.h"

#include "callers_words.h"
#include "moe_call.h"
#include "stream.h"
#include "unlocked.h"
#include "workspace.h"

#include <tilewright/moe.h>

#include <utility>
#include <vector>

namespace tilewright::python {
namespace {

nb::handle or_none(nb::handle value) { return value.is_valid() ? value : nb::handle(Py_None); }

nb::object run_layer(nb::handle x, nb::handle up, nb::handle down, const nb::dict& own_keywords,
                     const nb::dict& group_keywords, const nb::dict& keywords) {
    const CallOptions options(keywords);
    MoeCall call(x, up, down, MoeOptions(own_keywords), GroupOptions(group_keywords), options);
    call.require_result();
    void* const on = stream_of(call.out, or_none(options.stream));
    const CallWorkspace workspace(workspace_bytes(call.layer), call.layer.out.device, call.result, options.workspace,
                                  on);
    const RunOptions how{.backend = options.backend,
                         .stream = on,
                         .threads = options.threads,
                         .overlap = options.overlap,
                         .workspace = workspace.memory(),
                         .cancelled = &signal_arrived,
                         .device = options.device.get()};
    run_unlocked([&] { run(call.layer, how); },
                 [&](const std::vector<Finding>& found) { return call.in_callers_words(found); });
    return call.result;
}

std::vector<Finding> in_words_of_route(std::vector<Finding> findings) {
    for (Finding& finding : findings) {
        if (finding.operand == "experts") finding.operand = "num_experts";
        replace_word(finding, "routing.experts", "experts");
        replace_word(finding, "routing.weights", "weights");
        replace_word(finding, "routing.map", "expert_map");
        replace_word(finding, "routing.shared", "shared");
    }
    return findings;
}

using Routes = nb::typed<nb::tuple, nb::object, nb::object, nb::object, nb::object>;

Routes route_of(nb::handle experts, nb::handle num_experts, nb::handle weights, nb::handle expert_map,
                nb::handle shared, nb::handle stream) {
    if (experts.is_none()) refuse("experts", "None", "an array");
    const ArrayView ids = view(experts, {.operand = "experts", .integers = true});
    const ArrayView of_choices = view(weights, {.operand = "weights"});
    const ArrayView map = view(expert_map, {.operand = "expert_map", .integers = true});
    const std::int64_t count = integer(num_experts, "num_experts", 1);
    const std::int64_t of_all = integer(shared, "shared", 0, count, "the experts that take every token");
    const Routing routing{
        .experts = ids.tensor, .weights = of_choices.tensor, .map = map.tensor, .shared = static_cast<int>(of_all)};
    const Dims& shape = ids.tensor.shape;
    if (shape.rank() != 2) refuse("experts", to_string(shape), "[tokens, choices]");
    const std::int64_t choices = shape[1] + of_all;
    const auto made = [&](const Dims& size, Format format, bool zeros) {
        return view(new_array(experts, size, format, zeros), {.operand = "out", .writable = true, .format = format});
    };
    const ArrayView rows = made({shape[0], choices}, Format::i32, false);
    const ArrayView sources = made({shape[0] * choices}, Format::i32, true);  // not written after the last end
    const ArrayView ends = made({count}, Format::i32, true);
    ArrayView of_rows;
    if (of_choices.tensor.given()) of_rows = made({shape[0] * choices}, Format::f32, true);
    const Routed out{.rows = rows.tensor, .sources = sources.tensor, .ends = ends.tensor, .weights = of_rows.tensor};
    const ConversionOptions how{.cancelled = &signal_arrived, .stream = stream_of(ids, stream)};
    run_unlocked([&] { route(routing, count, out, how); },
                 [](const std::vector<Finding>& found) { return in_words_of_route(found); });
    return nb::make_tuple(rows.source, sources.source, ends.source,
                          of_rows.tensor.given() ? of_rows.source : nb::object(nb::none()));
}

nb::object combine_of(nb::handle y, nb::handle rows, nb::handle weights, nb::handle addend, nb::handle dtype) {
    const ArrayView read = view(y, {.operand = "y"});
    const ArrayView places = view(rows, {.operand = "rows", .integers = true});
    const ArrayView of_choices = view(weights, {.operand = "weights"});
    const ArrayView added = view(addend, {.operand = "addend"});
    const Format format = format_word(dtype, "dtype", {Format::f32, Format::bf16, Format::f16});
    if (read.tensor.shape.rank() != 2) refuse("y", to_string(read.tensor.shape), "[rows, hidden]");
    if (places.tensor.shape.rank() != 2) refuse("rows", to_string(places.tensor.shape), "[tokens, choices]");
    const Dims shape{places.tensor.shape[0], read.tensor.shape[1]};
    const ArrayView out = view(new_array(y, shape, format, false), {.operand = "out", .writable = true});
    const Combination sum{.y = read.tensor,
                          .rows = places.tensor,
                          .weights = of_choices.tensor,
                          .addend = added.tensor,
                          .out = out.tensor};
    const ConversionOptions how{.cancelled = &signal_arrived, .stream = stream_of(out, nb::none())};
    run_unlocked([&] { combine(sum, how); }, [](const std::vector<Finding>& found) { return found; });
    return out.source;
}

nb::object activate_of(nb::handle gate_up, nb::handle ends, const nb::dict& unit) {
    const ArrayView read = view(gate_up, {.operand = "gate_up"});
    const ArrayView group_ends = view(ends, {.operand = "ends", .integers = true});
    const GatedUnit given = MoeOptions(unit).unit;
    Dims shape = read.tensor.shape;
    if (shape.rank() != 2) refuse("gate_up", to_string(shape), "[rows, columns]");
    if (given.kind != GatedUnit::Kind::relu_squared) shape[1] /= 2;
    const ArrayView out = view(new_array(gate_up, shape, Format::f32, false), {.operand = "out", .writable = true});
    const ActivatedRows call{.gate_up = read.tensor, .unit = given, .ends = group_ends.tensor, .out = out.tensor};
    const ConversionOptions how{.cancelled = &signal_arrived, .stream = stream_of(out, nb::none())};
    run_unlocked([&] { activate(call, how); }, [](const std::vector<Finding>& found) { return found; });
    return out.source;
}

nb::object unit_gradient_of(nb::handle gate_up, nb::handle gradient, nb::handle ends, const nb::dict& unit) {
    const ArrayView read = view(gate_up, {.operand = "gate_up"});
    const ArrayView of_h = view(gradient, {.operand = "gradient"});
    const ArrayView group_ends = view(ends, {.operand = "ends", .integers = true});
    const ArrayView out =
        view(new_array(gate_up, read.tensor.shape, Format::f32, false), {.operand = "out", .writable = true});
    const UnitGradient call{.gate_up = read.tensor,
                            .unit = MoeOptions(unit).unit,
                            .gradient = of_h.tensor,
                            .ends = group_ends.tensor,
                            .out = out.tensor};
    const ConversionOptions how{.cancelled = &signal_arrived, .stream = stream_of(out, nb::none())};
    run_unlocked([&] { unit_gradient(call, how); }, [](const std::vector<Finding>& found) { return found; });
    return out.source;
}

nb::object weight_gradient_of(nb::handle gate_up, nb::handle gradient, nb::handle rows, nb::handle count,
                              const nb::dict& unit) {
    const ArrayView read = view(gate_up, {.operand = "gate_up"});
    const ArrayView of_h = view(gradient, {.operand = "gradient"});
    const ArrayView places = view(rows, {.operand = "rows", .integers = true});
    if (places.tensor.shape.rank() != 2) refuse("rows", to_string(places.tensor.shape), "[tokens, choices]");
    const Dims shape{places.tensor.shape[0], integer(count, "count", 0, places.tensor.shape[1], "the choices of rows")};
    const ArrayView out = view(new_array(gate_up, shape, Format::f32, false), {.operand = "out", .writable = true});
    const WeightGradient call{.gate_up = read.tensor,
                              .unit = MoeOptions(unit).unit,
                              .gradient = of_h.tensor,
                              .rows = places.tensor,
                              .out = out.tensor};
    const ConversionOptions how{.cancelled = &signal_arrived, .stream = stream_of(out, nb::none())};
    run_unlocked([&] { weight_gradient(call, how); }, [](const std::vector<Finding>& found) { return found; });
    return out.source;
}

}  // namespace

void bind_moe(nb::module_& m) {
    m.def("moe", &run_layer, nb::arg("x").none(), nb::arg("up").none(), nb::arg("down").none(), nb::arg("layer"),
          nb::arg("groups"), nb::arg("options"),
          "Computes a layer of experts and returns it; on a GPU: enqueues that on the option `stream`, or else on the "
          "current one.");
    m.def("route", &route_of, nb::arg("experts").none(), nb::arg("num_experts").none(), nb::arg("weights").none(),
          nb::arg("expert_map").none(), nb::arg("shared").none(), nb::arg("stream").none(),
          "New arrays: rows, sources, ends, and weights of rows or None.");
    m.def("combine", &combine_of, nb::arg("y"), nb::arg("rows"), nb::arg("weights").none(), nb::arg("addend").none(),
          nb::arg("dtype"), "A new array: the sum of the rows of each token, as in the last step of a layer.");
    m.def("activate", &activate_of, nb::arg("gate_up"), nb::arg("ends").none(), nb::arg("unit"),
          "A new array, f32 [rows, inner]: the unit of rows. Those from the last end on hold anything. `unit` has "
          "keywords of moe.");
    m.def("unit_gradient", &unit_gradient_of, nb::arg("gate_up"), nb::arg("gradient"), nb::arg("ends").none(),
          nb::arg("unit"), "A new array, f32: the gradient of gate_up, from that of `activate`'s result.");
    m.def("weight_gradient", &weight_gradient_of, nb::arg("gate_up"), nb::arg("gradient"), nb::arg("rows"),
          nb::arg("count"), nb::arg("unit"),
          "A new array, f32 [T, count]: the gradients of the first weights of each token. `unit` has keywords of moe.");
}

}  // namespace tilewright::python
