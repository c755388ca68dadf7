#include "moe_options.h"

#include "keywords.h"
#include "operand.h"

namespace tilewright::python {
namespace {

using Own = MoeOptions;
constexpr std::array layer_keywords{
    Keyword<Own>{"experts", [](Own& o, nb::handle v) { o.experts = given_or_null(v); }},
    Keyword<Own>{"weights", [](Own& o, nb::handle v) { o.weights = given_or_null(v); }},
    Keyword<Own>{"expert_map", [](Own& o, nb::handle v) { o.expert_map = given_or_null(v); }},
    Keyword<Own>{
        "shared",
        [](Own& o, nb::handle v) { o.shared = small_count(v, "shared", "the experts that take every token"); }},
    Keyword<Own>{"row_weights", [](Own& o, nb::handle v) { o.row_weights = given_or_null(v); }},
    Keyword<Own>{"activation", [](Own& o, nb::handle v) { o.unit.kind = one_of(all_gated_units, v, "activation"); }},
    Keyword<Own>{"alpha", [](Own& o, nb::handle v) { o.unit.swiglu.alpha = number(v, "alpha"); }},
    Keyword<Own>{"beta", [](Own& o, nb::handle v) { o.unit.swiglu.beta = number(v, "beta"); }},
    Keyword<Own>{"limit", [](Own& o, nb::handle v) { o.unit.swiglu.limit = number(v, "limit"); }},
    Keyword<Own>{"gate_bound", [](Own& o, nb::handle v) { o.unit.gate_bound = number(v, "gate_bound"); }},
    Keyword<Own>{"up_bound", [](Own& o, nb::handle v) { o.unit.up_bound = number(v, "up_bound"); }},
    Keyword<Own>{"interleaved", [](Own& o, nb::handle v) { o.unit.swiglu.interleaved = flag(v, "interleaved"); }},
    Keyword<Own>{"activations",
                 [](Own& o, nb::handle v) {
                     if (!v.is_none()) o.activations = operand_recipe(v, "activations");
                 }},
    Keyword<Own>{"round_up", [](Own& o, nb::handle v) { o.round_up = flag(v, "round_up"); }},
    Keyword<Own>{"weights_at", [](Own& o, nb::handle v) { o.weights_at = one_of(all_weights_at, v, "weights_at"); }},
    Keyword<Own>{"up_bias", [](Own& o, nb::handle v) { o.up_bias = given_or_null(v); }},
    Keyword<Own>{"down_bias", [](Own& o, nb::handle v) { o.down_bias = given_or_null(v); }},
    Keyword<Own>{"addend", [](Own& o, nb::handle v) { o.addend = given_or_null(v); }},
    Keyword<Own>{"chunk", [](Own& o, nb::handle v) { o.chunk = integer(v, "chunk", 1); }},
};

}  // namespace

MoeOptions::MoeOptions(const nb::dict& given) { read_all(layer_keywords, given, *this); }

}  // namespace tilewright::python
