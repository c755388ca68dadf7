// The extension module tilewright._core: what the Python files of the package are made of.
#include "call.h"
#include "expert_group.h"
#include "linear.h"
#include "linear_plan.h"
#include "moe.h"
#include "moe_questions.h"
#include "packing.h"
#include "plans.h"
#include "quantizers.h"
#include "raw_array.h"
#include "stream.h"
#include "token_quantizers.h"
#include "unlocked.h"
#include "workspace.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <tilewright/tilewright.h>

#include <exception>

namespace tilewright::python {
namespace {

/// A wrong call is an InvalidCall (a ValueError) with its findings, a fault of the machine a RuntimeError.
void translate_error(const std::exception_ptr& error, void*) {
    try {
        std::rethrow_exception(error);
    } catch (const Error& e) {
        if (e.findings().empty()) return PyErr_SetString(PyExc_RuntimeError, e.what());
        const nb::object type = nb::module_::import_("tilewright._errors").attr("InvalidCall");
        PyErr_SetObject(type.ptr(), nb::make_tuple(e.what(), nb::cast(e.findings())).ptr());
    }
}

nb::object multiply(nb::handle a, nb::handle b, const nb::dict& group_keywords, const nb::dict& keywords) {
    const CallOptions options(keywords);
    Call call(a, b, GroupOptions(group_keywords), options);
    call.require_result();
    void* const on = stream_of(call, options.stream);
    const CallWorkspace workspace(call, options.workspace, on);
    const RunOptions how{.backend = call.backend,
                         .stream = on,
                         .threads = options.threads,
                         .overlap = options.overlap,
                         .workspace = workspace.memory(),
                         .cancelled = &signal_arrived,
                         .device = options.device.get()};
    run_unlocked([&] { run(call.problem, how); },
                 [&](const std::vector<Finding>& found) { return call.in_callers_words(found); });
    return call.result;
}

std::vector<Finding> check(nb::handle a, nb::handle b, const nb::dict& group_keywords, const nb::dict& keywords) {
    try {
        const CallOptions options(keywords);
        const Call call(a, b, GroupOptions(group_keywords), options);
        return call.in_callers_words(validate(call.problem, call.backend, Check::contents));
    } catch (const Error& error) {
        if (error.findings().empty()) throw;
        return error.findings();
    }
}

void bind_findings(nb::module_& m) {
    nb::class_<Finding>(m, "Finding", "One mistake in a call.")
        .def(
            "__init__",
            [](Finding* self, const std::string& operand, const std::string& given, const std::string& expected,
               const std::string& advice) {
                new (self) Finding{operand, given, expected, advice};
            },
            nb::arg("operand"), nb::arg("given"), nb::arg("expected"), nb::arg("advice") = "")
        .def_ro("operand", &Finding::operand, "What is wrong: 'b.scales'.")
        .def_ro("given", &Finding::given, "What it is: '[56, 16]'.")
        .def_ro("expected", &Finding::expected, "What it must be.")
        .def_ro("advice", &Finding::advice, "What to do about it; may be empty.")
        .def("message", &Finding::message, "All of it in one sentence.")
        .def("__str__", &Finding::message)
        .def("__repr__", [](const Finding& f) { return "<Finding: " + f.message() + ">"; })
        .def(
            "__reduce__",
            [](const Finding& f) {
                return nb::make_tuple(nb::type<Finding>(), nb::make_tuple(f.operand, f.given, f.expected, f.advice));
            },
            "For pickle: errors go from one process to another.");
}

nb::typed<nb::tuple, int, nb::ellipsis> shape_of(const PreparedOperand& operand) {
    nb::list sizes;
    const PackedWeights& packed = operand.operand().packed;
    const Dims shape = packed.given() ? packed.shape() : operand.operand().values.shape;
    for (const std::int64_t size : shape) sizes.append(size);
    return nb::typed<nb::tuple, int, nb::ellipsis>(nb::tuple(sizes));
}

std::vector<std::uintptr_t> addresses_of(const PreparedOperand& prepared) {
    const auto address = [](const Tensor& tensor) { return reinterpret_cast<std::uintptr_t>(tensor.data); };
    const Operand& operand = prepared.operand();
    return {address(operand.values), address(operand.scales), address(operand.tensor_scale)};
}

void bind_operands(nb::module_& m) {
    m.def("register_dtype", &register_dtype, nb::arg("dtype"), nb::arg("format"), nb::arg("carrier").none(),
          "Arrays of `dtype` hold `format` and are read through `array.view(carrier)`; '' = not accepted.");
    nb::class_<PreparedOperand>(m, "Operand", "Values with their scales, viewed once.")
        .def(nb::init<nb::handle, nb::handle, nb::handle, nb::handle>(), nb::arg("values").none(),
             nb::arg("recipe").none(), nb::arg("scales").none(), nb::arg("tensor_scale").none())
        .def(nb::init<nb::handle, nb::handle>(), nb::arg("packed").none(), nb::arg("header").none())
        .def_prop_ro("values", &PreparedOperand::values, "The array given as values.")
        .def_prop_ro("scales", &PreparedOperand::scales, "The array given as scales; None without.")
        .def_prop_ro("tensor_scale", &PreparedOperand::tensor_scale, "The array given as tensor scale; None without.")
        .def_prop_ro("shape", &shape_of, "Sizes in elements (not bytes), as the values are stored.")
        .def_prop_ro("addresses", &addresses_of,
                     "Of values, scales and tensor scale: those of the arrays, for nothing is copied.");
}

void bind_calls(nb::module_& m) {
    const auto bind = [&m](const char* name, auto function, const char* text) {
        m.def(name, function, nb::arg("a").none(), nb::arg("b").none(), nb::arg("groups"), nb::arg("options"), text);
    };
    bind("multiply", &multiply,
         "Computes D and returns it; on a GPU: enqueues that on the option `stream`, or else on the current one.");
    bind("validate", &check, "All that is wrong with the call.");
    bind("workspace_bytes", &workspace_bytes_of, "What a call on a GPU needs beyond its arrays; 0 for a wrong one.");
    bind("explain", &explain_call, "The planner's choice for the option `planned_device`.");
    bind("scales_to_copy", &scales_to_copy_of,
         "Whether a copy of the scales of a, and of b, saves more than it takes.");
    m.def(
        "device_word", &lasting_device_word, nb::arg("name").none(),
        "'automatic', the name of a known GPU, or the absolute path of a device file. Raises InvalidCall for others.");
    m.def(
        "refuse",
        [](const std::string& operand, const std::string& given, const std::string& expected,
           const std::string& advice) { refuse(operand, given, expected, advice); },
        nb::arg("operand"), nb::arg("given"), nb::arg("expected"), nb::arg("advice") = "",
        nb::sig("def refuse(operand: str, given: str, expected: str, advice: str = '') -> typing.NoReturn"),
        "Raises InvalidCall with one finding.");
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "The C++ half of tilewright. Use the functions of `tilewright` itself.";
    nb::set_leak_warnings(false);  // torch does not release a graph that is alive when the interpreter ends
    nb::register_exception_translator(translate_error);
    bind_findings(m);
    bind_operands(m);
    bind_raw_arrays(m);
    bind_plans(m);
    bind_calls(m);
    bind_quantizers(m);
    bind_packing(m);
    bind_token_quantizers(m);
    bind_linear(m);
    bind_linear_plan(m);
    bind_moe(m);
    bind_moe_questions(m);
    bind_expert_group(m);
    m.def(
        "recipes",
        [] {
            std::vector<std::string> names;
            for (const Recipe& recipe : all_recipes()) names.push_back(name(recipe));
            return names;
        },
        "The names of all accepted recipes.");
    m.attr("version") = TILEWRIGHT_VERSION;
}

}  // namespace tilewright::python
