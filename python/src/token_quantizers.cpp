#include "token_quantizers.h"

#include "arguments.h"
#include "operand.h"
#include "stream.h"
#include "unlocked.h"

#include <tilewright/quantize_tokens.h>

#include <string>
#include <string_view>
#include <vector>

namespace tilewright::python {
namespace {

ArrayView optional_view(nb::handle array, const ArrayRole& role) {
    return array.is_none() ? ArrayView{} : view(array, role);
}

ArrayView view_of_ends(nb::handle ends) {
    ArrayView made = optional_view(ends, {.operand = "ends", .integers = true});
    if (made.tensor.given() && made.tensor.shape.rank() != 1) refuse("ends", to_string(made.tensor.shape), "[groups]");
    return made;
}

/// The shape of the transpose of h.
Dims columns_shape(std::int64_t tokens, std::int64_t features, const Tensor& ends) {
    return {features, ends.given() ? column_limit(tokens, ends.shape[0]) : tokens};
}

ConversionOptions token_conversion(nb::handle threads) {
    return {.threads = static_cast<int>(integer(threads, "threads", 0, 1 << 30, "0 means all")),
            .cancelled = &signal_arrived};
}

/// A new array, and a writable view of it.
ArrayView fresh(nb::handle like, const Dims& shape, Format format, const char* operand) {
    return view(new_array(like, shape, format, false), {.operand = operand, .writable = true, .format = format});
}

/// A new array [rows, columns] whose columns are contiguous and begin at multiples of 16 bytes if elements have four.
/// TMA loads scales of 1x128 from this order.
nb::object fresh_transposed(nb::handle like, const Dims& shape, Format format) {
    constexpr std::int64_t step = 4;
    const std::int64_t rows = shape[0], padded = (rows + step - 1) / step * step;
    const nb::object whole = new_array(like, {shape[1], padded}, format, false).attr("T");
    return padded == rows ? whole : nb::object(whole[nb::slice(nb::int_(0), nb::int_(rows), nb::int_(1))]);
}

/// One of the two operands: its recipe, its new arrays, its factors.
struct Side {
    Side(nb::handle recipe, const char* name) : is_wanted(!recipe.is_none()) {
        if (is_wanted) wanted = operand_recipe(recipe, name);
    }

    void allocate(nb::handle like, const Dims& shape, const Dims& scale_dims) {
        values = fresh(like, shape, wanted.values, "values");
        scales = fresh(like, scale_dims, wanted.scales, "scales");
        describe();
    }

    /// `allocate`, with features adjacent in the scales of 1x128.
    void allocate_columns(nb::handle like, const Dims& shape, const Dims& scale_dims) {
        if (wanted.granularity != Granularity::block_1x128) return allocate(like, shape, scale_dims);
        values = fresh(like, shape, wanted.values, "values");
        scales = view(fresh_transposed(like, scale_dims, wanted.scales),
                      {.operand = "scales", .writable = true, .format = wanted.scales});
        describe();
    }

    void describe() { given.operand = {values.tensor, wanted.granularity, scales.tensor, {}}; }

    void set_factors(nb::handle by_token, nb::handle by_feature, const std::string& name) {
        token_factors = optional_view(by_token, {.operand = name + "_token_factors", .format = Format::f32});
        feature_factors = optional_view(by_feature, {.operand = name + "_feature_factors", .format = Format::f32});
        given.token_factors = token_factors.tensor;
        given.feature_factors = feature_factors.tensor;
    }

    nb::object arrays() const {
        return is_wanted ? nb::object(nb::make_tuple(values.source, scales.source)) : nb::object(nb::none());
    }

    bool is_wanted;
    OperandRecipe wanted{};
    ArrayView values{}, scales{}, token_factors{}, feature_factors{};
    TokenOperand given{};
};

bool serves_tokens(Granularity granularity) {
    return granularity == Granularity::tensor || granularity == Granularity::row ||
           granularity == Granularity::block_1x128 || granularity == Granularity::block_128x128;
}

Activation activation_word(nb::handle value) {
    const std::string_view word = text(value, "activation", "'none', 'swiglu' or 'swiglu_gradient'");
    if (word == "none") return Activation::none;
    if (word == "swiglu") return Activation::swiglu;
    if (word == "swiglu_gradient") return Activation::swiglu_gradient;
    refuse("activation", shown(value), "'none', 'swiglu' or 'swiglu_gradient'");
}

void allocate(nb::handle x, const TokenSource& source, Side& rows, Side& columns) {
    const std::int64_t tokens = source.x.shape[0];
    const bool halves = source.activation == Activation::swiglu;
    const std::int64_t features = halves ? source.x.shape[1] / 2 : source.x.shape[1];
    const bool grouped = source.ends.given();
    const std::int64_t groups = grouped ? source.ends.shape[0] : 1;
    for (Side* side : {&rows, &columns}) {
        if (side->is_wanted && !serves_tokens(side->wanted.granularity)) {
            refuse(side == &rows ? "rows" : "columns", name(side->wanted), "tensor, row, 1x128 or 128x128");
        }
    }
    if (rows.is_wanted) {
        const Dims shape{tokens, features};
        rows.allocate(x, shape, scale_shape(rows.wanted.granularity, shape));
    }
    if (!columns.is_wanted) return;
    const Dims shape = columns_shape(tokens, features, source.ends);
    Dims scales = scale_shape(columns.wanted.granularity, shape);
    if (grouped && columns.wanted.granularity == Granularity::row) scales = {groups, features};
    if (grouped && columns.wanted.granularity == Granularity::tensor) scales = {groups};
    columns.allocate_columns(x, shape, scales);
}

/// Findings in the words of the Python function.
std::vector<Finding> in_python_words(std::vector<Finding> findings) {
    for (Finding& finding : findings) {
        std::string& operand = finding.operand;
        for (std::string* text : {&operand, &finding.given, &finding.expected, &finding.advice}) {
            constexpr std::string_view prefix = "source.";
            const std::size_t at = text->find(prefix);
            if (at != std::string::npos) text->erase(at, prefix.size());
        }
        for (const std::string side : {"rows", "columns"}) {
            const bool is_unnamed = operand == side + ".values" && finding.given == "nothing";
            if (is_unnamed || operand == side + ".granularity") operand = side;
            if (operand == side + ".token_factors") operand = side + "_token_factors";
            if (operand == side + ".feature_factors") operand = side + "_feature_factors";
        }
    }
    return findings;
}

using Arrays = nb::typed<nb::tuple, nb::object, nb::object>;

Arrays quantize_tokens_of(nb::handle x, nb::handle ends, nb::handle rows_word, nb::handle columns_word,
                          nb::handle activation, nb::handle gradient, nb::tuple form, nb::tuple factors,
                          nb::handle round_up, nb::handle threads, nb::handle stream) {
    ConversionOptions how = token_conversion(threads);
    const bool rounds_up = flag(round_up, "round_up");
    if (x.is_none()) refuse("x", "None", "an array");
    const ArrayView read = view(x, {.operand = "x"});
    if (read.tensor.shape.rank() != 2) refuse("x", to_string(read.tensor.shape), "[tokens, features]");
    const ArrayView group_ends = view_of_ends(ends);
    const ArrayView of_output = optional_view(gradient, {.operand = "gradient"});
    const TokenSource source{.x = read.tensor,
                             .activation = activation_word(activation),
                             .swiglu = {.alpha = number(form[0], "alpha"),
                                        .beta = number(form[1], "beta"),
                                        .limit = number(form[2], "limit"),
                                        .interleaved = flag(form[3], "interleaved")},
                             .gradient = of_output.tensor,
                             .ends = group_ends.tensor};
    Side rows(rows_word, "rows");
    Side columns(columns_word, "columns");
    allocate(x, source, rows, columns);
    rows.set_factors(factors[0], factors[1], "rows");
    columns.set_factors(factors[2], factors[3], "columns");
    how.stream = stream_of(read, stream);
    run_unlocked([&] { quantize_tokens(source, rows.given, columns.given, rounds_up, how); },
                 [](const std::vector<Finding>& found) { return in_python_words(found); });
    return nb::make_tuple(rows.arrays(), columns.arrays());
}

bool serves_transposition(const OperandRecipe& recipe) {
    const bool is_fp8 = recipe.values == Format::e4m3 || recipe.values == Format::e5m2;
    return is_fp8 && recipe.granularity == Granularity::block_1x128;
}

/// The operand to transpose: a Quantized with one scale per token and 128 features.
const PreparedOperand& codes_of(nb::handle rows) {
    const PreparedOperand* given = prepared(rows, "rows.");
    const char* expected = "a Quantized with recipe 1x128, e4m3 or e5m2";
    if (given == nullptr) refuse("rows", shown(rows), expected);
    if (given->operand().packed.given()) refuse("rows", "PackedWeights", expected);
    if (!serves_transposition(given->recipe())) refuse("rows", name(given->recipe()), expected);
    if (const Dims& shape = given->operand().values.shape; shape.rank() != 2) {
        refuse("rows.values", to_string(shape), "[tokens, features]");
    }
    return *given;
}

Arrays transpose_codes_of(nb::handle rows, nb::handle ends, nb::handle columns_word, nb::handle threads,
                          nb::handle stream) {
    ConversionOptions how = token_conversion(threads);
    const PreparedOperand& codes = codes_of(rows);
    const Operand operand = codes.operand();
    Side columns(columns_word, "columns");
    const bool is_square = columns.wanted.granularity == Granularity::block_128x128;
    if (!is_square && !serves_transposition(columns.wanted)) {
        refuse("columns", name(columns.wanted), "1x128 or 128x128");
    }
    if (columns.wanted.values != codes.recipe().values) {
        refuse("columns", name(columns.wanted), std::string(name(codes.recipe().values)) + ", the format of rows",
               "values are moved, not converted");
    }
    const ArrayView group_ends = view_of_ends(ends);
    const Dims shape = columns_shape(operand.values.shape[0], operand.values.shape[1], group_ends.tensor);
    columns.allocate_columns(codes.values(), shape, scale_shape(columns.wanted.granularity, shape));
    how.stream = stream_of(view(codes.values(), {.operand = "rows.values", .format = operand.values.format}), stream);
    run_unlocked([&] { transpose_codes(operand, group_ends.tensor, columns.given.operand, how); },
                 [](const std::vector<Finding>& found) { return in_python_words(found); });
    return nb::make_tuple(columns.values.source, columns.scales.source);
}

}  // namespace

void bind_token_quantizers(nb::module_& m) {
    m.def("quantize_tokens", &quantize_tokens_of, nb::arg("x").none(), nb::arg("ends").none(), nb::arg("rows").none(),
          nb::arg("columns").none(), nb::arg("activation").none(), nb::arg("gradient").none(), nb::arg("form"),
          nb::arg("factors"), nb::arg("round_up").none(), nb::arg("threads").none(), nb::arg("stream").none(),
          "New arrays (values, scales) of rows and of columns, or None.");
    m.def("transpose_codes", &transpose_codes_of, nb::arg("rows").none(), nb::arg("ends").none(),
          nb::arg("columns").none(), nb::arg("threads").none(), nb::arg("stream").none(),
          "New arrays (values, scales).");
}

}  // namespace tilewright::python
