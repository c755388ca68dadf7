// Dictionaries of keyword arguments, read by tables: the name of each keyword, and what its value sets.
#pragma once

#include "arguments.h"

#include <tilewright/error.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace tilewright::python {

/// The member of `all` whose name is the value.
template <class All>
auto one_of(const All& all, nb::handle value, const char* argument) {
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

inline nb::handle given_or_null(nb::handle value) { return value.is_none() ? nb::handle() : value; }

inline int small_count(nb::handle value, const char* argument, const std::string& advice) {
    return static_cast<int>(integer(value, argument, 0, std::numeric_limits<int>::max(), advice));
}

template <class Options>
struct Keyword {
    std::string_view name;
    void (*read)(Options&, nb::handle value);
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

}  // namespace tilewright::python
