#include "callers_words.h"

#include <cctype>
#include <utility>

namespace tilewright::python {

std::string with_word(std::string text, const std::string& from, const std::string& to) {
    const auto is_inner = [&](std::size_t i) {
        return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_');
    };
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
        const bool is_whole = (at == 0 || !is_inner(at - 1)) && !is_inner(at + from.size());
        if (is_whole) text.replace(at, from.size(), to);
        at += is_whole ? to.size() : 1;
    }
    return text;
}

void replace_word(Finding& finding, const std::string& from, const std::string& to) {
    for (std::string* text : {&finding.operand, &finding.given, &finding.expected, &finding.advice}) {
        *text = with_word(std::move(*text), from, to);
    }
}

void name_the_flag(Finding& finding) {
    if (finding.operand != "reproducibility") return;
    finding.operand = "invariant";
    finding.given = "True";
    finding.expected = with_word(std::move(finding.expected), "repeatable", "False");
    finding.advice = with_word(std::move(finding.advice), "invariant", "invariant=True");
}

}  // namespace tilewright::python
