#include "token_quantizers.h"

#include "arguments.h"
#include "new_operand.h"
#include "operand.h"
#include "stream.h"
#include "unlocked.h"

#include <tilewright/quantize_tokens.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tilewright::python {
namespace {

ArrayView view_of_ends(nb::handle ends) {
    ArrayView made = view(ends, {.operand = "ends", .integers = true});
    if (made.tensor.given() && made.tensor.shape.rank() != 1) refuse("ends", to_string(made.tensor.shape), "[groups]");
    return made;
}

ConversionOptions token_conversion(nb::handle threads) {
    return {.threads = static_cast<int>(integer(threads, "threads", 0, 1 << 30, "0 means all")),
            .cancelled = &signal_arrived};
}

/// One of the two operands: its recipe, its new arrays, its factors.
struct Side {
    Side(nb::handle recipe, const char* name) : is_wanted(!recipe.is_none()) {
        if (is_wanted) wanted = operand_recipe(recipe, name);
    }

    void take(NewOperand made) {
        made_ = std::move(made);
        given.operand = made_.operand;
    }

    void set_factors(nb::handle by_token, nb::handle by_feature, const std::string& name) {
        token_factors = view(by_token, {.operand = name + "_token_factors", .format = Format::f32});
        feature_factors = view(by_feature, {.operand = name + "_feature_factors", .format = Format::f32});
        given.token_factors = token_factors.tensor;
        given.feature_factors = feature_factors.tensor;
    }

    nb::object arrays() const { return made_.arrays(); }
    nb::tuple pair() const { return nb::make_tuple(made_.values.source, made_.scale_array()); }

    bool is_wanted;
    OperandRecipe wanted{};
    ArrayView token_factors{}, feature_factors{};
    TokenOperand given{};

private:
    NewOperand made_{};
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

/// New columns for a matrix [tokens, features]. groups: 0 without ends.
void take_columns(Side& columns, nb::handle like, const Dims& matrix, std::int64_t groups) {
    const Dims shape = columns_shape(matrix[0], matrix[1], groups);
    const Dims scales = column_scale_shape(columns.wanted.granularity, matrix[0], matrix[1], groups);
    columns.take(NewOperand::columns(like, columns.wanted, shape, scales));
}

void allocate(nb::handle x, const TokenSource& source, Side& rows, Side& columns) {
    const std::int64_t tokens = source.index.given() ? source.index.shape[0] : source.x.shape[0];
    const bool halves = source.activation == Activation::swiglu;
    const std::int64_t features = halves ? source.x.shape[1] / 2 : source.x.shape[1];
    const std::int64_t groups = source.ends.given() ? std::max<std::int64_t>(source.ends.shape[0], 1) : 0;
    for (Side* side : {&rows, &columns}) {
        if (side->is_wanted && !serves_tokens(side->wanted.granularity)) {
            refuse(side == &rows ? "rows" : "columns", name(side->wanted), "tensor, row, 1x128 or 128x128");
        }
    }
    if (rows.is_wanted) {
        const Dims shape{tokens, features};
        rows.take({x, rows.wanted, shape, scale_shape(rows.wanted.granularity, shape)});
    }
    if (columns.is_wanted) take_columns(columns, x, {tokens, features}, groups);
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
                          nb::handle activation, nb::handle gradient, nb::handle index, nb::tuple form,
                          nb::tuple factors, nb::handle round_up, nb::handle threads, nb::handle stream) {
    ConversionOptions how = token_conversion(threads);
    const bool rounds_up = flag(round_up, "round_up");
    if (x.is_none()) refuse("x", "None", "an array");
    const ArrayView read = view(x, {.operand = "x"});
    if (read.tensor.shape.rank() != 2) refuse("x", to_string(read.tensor.shape), "[tokens, features]");
    const ArrayView group_ends = view_of_ends(ends);
    const ArrayView of_output = view(gradient, {.operand = "gradient"});
    const ArrayView gathered = view(index, {.operand = "index", .integers = true});
    if (gathered.tensor.given() && gathered.tensor.shape.rank() != 1) {
        refuse("index", to_string(gathered.tensor.shape), "[tokens]");
    }
    const TokenSource source{.x = read.tensor,
                             .index = gathered.tensor,
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
    const bool has_tokens = recipe.granularity == Granularity::block_1x128;
    return is_fp8(recipe.values) && (has_tokens || recipe.granularity == Granularity::none);
}

/// The operand to transpose: a Quantized with one scale per token and 128 features.
const PreparedOperand& codes_of(nb::handle rows) {
    const PreparedOperand* given = prepared(rows, "rows.");
    const char* expected = "a Quantized with recipe 1x128 or none, e4m3 or e5m2";
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
    const bool has_scales = operand.granularity != Granularity::none;
    const Granularity wanted = columns.wanted.granularity;
    const bool is_block = wanted == Granularity::block_1x128 || wanted == Granularity::block_128x128;
    if (has_scales ? !is_block : wanted != Granularity::none) {
        refuse("columns", name(columns.wanted), has_scales ? "1x128 or 128x128" : name(codes.recipe()));
    }
    if (columns.wanted.values != codes.recipe().values) {
        refuse("columns", name(columns.wanted), std::string(name(codes.recipe().values)) + ", the format of rows",
               "values are moved, not converted");
    }
    const ArrayView group_ends = view_of_ends(ends);
    const Dims& shape = operand.values.shape;
    const std::int64_t groups = group_ends.tensor.given() ? std::max<std::int64_t>(group_ends.tensor.shape[0], 1) : 0;
    take_columns(columns, codes.values(), shape, groups);
    how.stream = stream_of(view(codes.values(), {.operand = "rows.values", .format = operand.values.format}), stream);
    run_unlocked([&] { transpose_codes(operand, group_ends.tensor, columns.given.operand, how); },
                 [](const std::vector<Finding>& found) { return in_python_words(found); });
    return columns.pair();
}

}  // namespace

void bind_token_quantizers(nb::module_& m) {
    m.def("quantize_tokens", &quantize_tokens_of, nb::arg("x").none(), nb::arg("ends").none(), nb::arg("rows").none(),
          nb::arg("columns").none(), nb::arg("activation").none(), nb::arg("gradient").none(), nb::arg("index").none(),
          nb::arg("form"), nb::arg("factors"), nb::arg("round_up").none(), nb::arg("threads").none(),
          nb::arg("stream").none(), "New arrays (values, scales) of rows and of columns, or None.");
    m.def("transpose_codes", &transpose_codes_of, nb::arg("rows").none(), nb::arg("ends").none(),
          nb::arg("columns").none(), nb::arg("threads").none(), nb::arg("stream").none(),
          "New arrays (values, scales).");
}

}  // namespace tilewright::python
