#include "options.h"

#include "element_type.h"
#include "keywords.h"

#include <array>

namespace tilewright::python {
namespace {

using Common = CallOptions;
constexpr std::array common_keywords{
    Keyword<Common>{"layout", [](Common& o, nb::handle v) { o.layout = one_of(all_layouts, v, "layout"); }},
    Keyword<Common>{"out", [](Common& o, nb::handle v) { o.out = given_or_null(v); }},
    Keyword<Common>{"out_dtype",
                    [](Common& o, nb::handle v) {
                        if (v.is_none()) return;
                        o.out_dtype = output_format(v, "out_dtype");
                    }},
    Keyword<Common>{"c", [](Common& o, nb::handle v) { o.c = given_or_null(v); }},
    Keyword<Common>{"bias", [](Common& o, nb::handle v) { o.bias = given_or_null(v); }},
    Keyword<Common>{"alpha", [](Common& o, nb::handle v) { o.alpha = number(v, "alpha"); }},
    Keyword<Common>{"accumulation",
                    [](Common& o, nb::handle v) { o.accumulation = one_of(all_accumulations, v, "accumulation"); }},
    Keyword<Common>{"arithmetic",
                    [](Common& o, nb::handle v) { o.arithmetic = one_of(all_arithmetics, v, "arithmetic"); }},
    Keyword<Common>{"invariant",
                    [](Common& o, nb::handle v) {
                        o.reproducibility =
                            flag(v, "invariant") ? Reproducibility::invariant : Reproducibility::repeatable;
                    }},
    Keyword<Common>{"backend", [](Common& o, nb::handle v) { o.backend = one_of(all_backends, v, "backend"); }},
    Keyword<Common>{"threads", [](Common& o, nb::handle v) { o.threads = small_count(v, "threads", "0 means all"); }},
    Keyword<Common>{"sm_limit",
                    [](Common& o, nb::handle v) { o.sm_limit = small_count(v, "sm_limit", "0 lifts the limit"); }},
    Keyword<Common>{"stream", [](Common& o, nb::handle v) { o.stream = given_or_null(v); }},
    Keyword<Common>{"overlap", [](Common& o, nb::handle v) { o.overlap = flag(v, "overlap"); }},
    Keyword<Common>{"workspace", [](Common& o, nb::handle v) { o.workspace = given_or_null(v); }},
    Keyword<Common>{"planned_device", [](Common& o, nb::handle v) { o.device = planned_device(v); }},
};

using Groups = GroupOptions;
constexpr std::array group_keywords{
    Keyword<Groups>{"grouping", [](Groups& o, nb::handle v) { o.grouping = one_of(all_groupings, v, "grouping"); }},
    Keyword<Groups>{"sizes", [](Groups& o, nb::handle v) { o.sizes = given_or_null(v); }},
    Keyword<Groups>{"word", [](Groups& o, nb::handle v) { o.word = text(v, "word", "text"); }},
    Keyword<Groups>{"alignment", [](Groups& o, nb::handle v) { o.alignment = integer(v, "alignment"); }},
    Keyword<Groups>{"index_alignment",
                    [](Groups& o, nb::handle v) { o.index_alignment = integer(v, "index_alignment"); }},
    Keyword<Groups>{"expected_m", [](Groups& o, nb::handle v) { o.expected_m = integer(v, "expected_m"); }},
};

}  // namespace

CallOptions::CallOptions(const nb::dict& given) { read_all(common_keywords, given, *this); }
GroupOptions::GroupOptions(const nb::dict& given) { read_all(group_keywords, given, *this); }

}  // namespace tilewright::python
