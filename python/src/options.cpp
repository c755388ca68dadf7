#include "options.h"

#include "element_type.h"

#include <tilewright/error.h>

#include <array>
#include <utility>

namespace tilewright::python {
namespace {

/// The member of `all` whose name is the value.
template <class All>
auto word(const All& all, nb::handle value, const char* argument) {
    std::string expected;
    const auto list = [&] {
        for (auto candidate : all) expected += (expected.empty() ? "one of " : ", ") + std::string(name(candidate));
        return expected;
    };
    if (nb::isinstance<nb::str>(value)) {
        const std::string_view given = text(value, argument, {});
        for (auto candidate : all) {
            if (name(candidate) == given) return candidate;
        }
    }
    refuse(argument, shown(value), list());
}

nb::handle given_or_null(nb::handle value) { return value.is_none() ? nb::handle() : value; }

int small_count(nb::handle value, const char* argument, const std::string& advice) {
    return static_cast<int>(integer(value, argument, 0, std::numeric_limits<int>::max(), advice));
}

template <class Options>
struct Keyword {
    std::string_view name;
    void (*read)(Options&, nb::handle value);
};

using Common = CallOptions;
constexpr std::array common_keywords{
    Keyword<Common>{"layout", [](Common& o, nb::handle v) { o.layout = word(all_layouts, v, "layout"); }},
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
                    [](Common& o, nb::handle v) { o.accumulation = word(all_accumulations, v, "accumulation"); }},
    Keyword<Common>{"arithmetic",
                    [](Common& o, nb::handle v) { o.arithmetic = word(all_arithmetics, v, "arithmetic"); }},
    Keyword<Common>{"invariant",
                    [](Common& o, nb::handle v) {
                        o.reproducibility =
                            flag(v, "invariant") ? Reproducibility::invariant : Reproducibility::repeatable;
                    }},
    Keyword<Common>{"backend", [](Common& o, nb::handle v) { o.backend = word(all_backends, v, "backend"); }},
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
    Keyword<Groups>{"grouping", [](Groups& o, nb::handle v) { o.grouping = word(all_groupings, v, "grouping"); }},
    Keyword<Groups>{"sizes", [](Groups& o, nb::handle v) { o.sizes = given_or_null(v); }},
    Keyword<Groups>{"word", [](Groups& o, nb::handle v) { o.word = text(v, "word", "text"); }},
    Keyword<Groups>{"alignment", [](Groups& o, nb::handle v) { o.alignment = integer(v, "alignment"); }},
    Keyword<Groups>{"index_alignment",
                    [](Groups& o, nb::handle v) { o.index_alignment = integer(v, "index_alignment"); }},
    Keyword<Groups>{"expected_m", [](Groups& o, nb::handle v) { o.expected_m = integer(v, "expected_m"); }},
};

/// `likely`: the position of `name` if the caller gives all keywords in the order of the table.
template <class Options, std::size_t count>
const Keyword<Options>& keyword(const std::array<Keyword<Options>, count>& known, std::string_view name,
                                std::size_t likely) {
    if (likely < count && known[likely].name == name) return known[likely];
    std::string all;
    for (const Keyword<Options>& candidate : known) {
        if (candidate.name == name) return candidate;
    }
    for (const Keyword<Options>& candidate : known) all += (all.empty() ? "" : ", ") + std::string(candidate.name);
    throw nb::type_error(("unexpected keyword argument '" + std::string(name) + "'; there are " + all).c_str());
}

/// All keywords of the dictionary, and every value of no use in one Error.
template <class Options, std::size_t count>
void read_all(const std::array<Keyword<Options>, count>& known, const nb::dict& given, Options& options) {
    std::vector<Finding> findings;
    std::size_t position = 0;
    for (const auto& [key, value] : given) {
        const Keyword<Options>& found = keyword(known, text(key, "keyword", "text"), position++);
        try {
            found.read(options, value);
        } catch (const Error& error) {
            findings.insert(findings.end(), error.findings().begin(), error.findings().end());
        }
    }
    if (!findings.empty()) throw Error(std::move(findings));
}

}  // namespace

CallOptions::CallOptions(const nb::dict& given) { read_all(common_keywords, given, *this); }
GroupOptions::GroupOptions(const nb::dict& given) { read_all(group_keywords, given, *this); }

}  // namespace tilewright::python
