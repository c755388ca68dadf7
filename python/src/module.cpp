// The extension module tilewright._core: what the Python files of the package are made of.
#include "call.h"
#include "plans.h"
#include "quantizers.h"
#include "raw_array.h"
#include "stream.h"

#include <nanobind/stl/optional.h>
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

nb::object multiply(const CallArguments& arguments, int threads, nb::handle stream, bool overlap) {
    Call call(arguments);
    call.require_result();
    void* const on = stream_of(call, stream);
    if (threads < 0) refuse("threads", std::to_string(threads), "0 (all) or more");
    try {
        const nb::gil_scoped_release unlocked;
        run(call.problem, {.backend = call.backend, .stream = on, .threads = threads, .overlap = overlap});
    } catch (const Error& error) {
        if (error.findings().empty()) throw;
        throw Error(call.in_callers_words(error.findings()));
    }
    return call.result;
}

std::vector<Finding> check(const CallArguments& arguments) {
    const Call call(arguments);
    return call.in_callers_words(validate(call.problem, call.backend));
}

/// A function of a multiplication's arguments, and of more behind them.
template <class Result, class... More, class... Names>
void bind_call(nb::module_& m, const char* name, Result (*function)(const CallArguments&, More...), const char* text,
               const Names&... names) {
    m.def(
        name,
        [function](nb::object a, nb::object b, nb::object out, std::optional<std::string_view> out_dtype, nb::object c,
                   float alpha, std::string_view layout, std::string_view grouping, nb::object sizes,
                   std::string_view sizes_word, std::int64_t alignment, std::int64_t expected_m,
                   std::string_view accumulation, std::string_view arithmetic, std::string_view reproducibility,
                   std::string_view backend, int sm_limit, More... more) {
            return function({std::move(a), std::move(b), std::move(out), out_dtype, std::move(c), alpha, layout,
                             grouping, std::move(sizes), sizes_word, alignment, expected_m, accumulation, arithmetic,
                             reproducibility, backend, sm_limit},
                            more...);
        },
        nb::arg("a"), nb::arg("b"), nb::arg("out").none(), nb::arg("out_dtype").none(), nb::arg("c").none(),
        nb::arg("alpha"), nb::arg("layout"), nb::arg("grouping"), nb::arg("sizes").none(), nb::arg("sizes_word"),
        nb::arg("alignment"), nb::arg("expected_m"), nb::arg("accumulation"), nb::arg("arithmetic"),
        nb::arg("reproducibility"), nb::arg("backend"), nb::arg("sm_limit"), names..., text);
}

void bind_findings(nb::module_& m) {
    nb::class_<Finding>(m, "Finding", "One mistake in a call.")
        .def_ro("operand", &Finding::operand, "What is wrong: 'b.scales'.")
        .def_ro("given", &Finding::given, "What it is: '[56, 16]'.")
        .def_ro("expected", &Finding::expected, "What it must be.")
        .def_ro("advice", &Finding::advice, "What to do about it; may be empty.")
        .def("message", &Finding::message, "All of it in one sentence.")
        .def("__str__", &Finding::message)
        .def("__repr__", [](const Finding& f) { return "<Finding: " + f.message() + ">"; });
}

void bind_arrays(nb::module_& m) {
    m.def("register_dtype", &register_dtype, nb::arg("dtype"), nb::arg("format"), nb::arg("carrier").none(),
          "Arrays of `dtype` hold `format` and are read through `array.view(carrier)`; '' = not accepted.");
    nb::class_<PreparedOperand>(m, "Operand", "Values with their scales, viewed once.")
        .def(nb::init<nb::object, std::string_view, nb::object, nb::object>(), nb::arg("values"), nb::arg("recipe"),
             nb::arg("scales").none(), nb::arg("tensor_scale").none())
        .def_prop_ro(
            "shape",
            [](const PreparedOperand& o) {
                const Dims& shape = o.operand.values.shape;
                nb::list sizes;
                for (const std::int64_t size : shape) sizes.append(size);
                return nb::typed<nb::tuple, int, nb::ellipsis>(nb::tuple(sizes));
            },
            "Sizes in elements (not bytes), as the values are stored.")
        .def_prop_ro(
            "addresses",
            [](const PreparedOperand& o) {
                const auto address = [](const Tensor& tensor) { return reinterpret_cast<std::uintptr_t>(tensor.data); };
                return std::vector<std::uintptr_t>{address(o.operand.values), address(o.operand.scales),
                                                   address(o.operand.tensor_scale)};
            },
            "Where values, scales and tensor scale lie: where the arrays have them, for nothing is copied.");
}

void bind_calls(nb::module_& m) {
    bind_call(m, "multiply", &multiply,
              "Computes D and returns it; on a GPU: enqueues that on `stream`, or else on the current one.",
              nb::arg("threads"), nb::arg("stream").none(), nb::arg("overlap"));
    bind_call(m, "validate", &check, "All that is wrong with the call.");
    bind_call(m, "explain", &explain_call, "What the planner would choose on `device`.", nb::arg("device"));
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "The C++ half of tilewright. Use the functions of `tilewright` itself.";
    nb::register_exception_translator(translate_error);
    bind_findings(m);
    bind_arrays(m);
    bind_raw_arrays(m);
    bind_plans(m);
    bind_calls(m);
    bind_quantizers(m);
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
