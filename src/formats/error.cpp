// The texts of findings and of the exception that carries them.
#include <tilewright/error.h>

#include <string_view>
#include <utility>

namespace tilewright {
namespace {

std::string joined(const std::vector<Finding>& findings) {
    std::string text;
    for (const Finding& finding : findings) text += (text.empty() ? "" : "\n") + finding.message();
    return text;
}

bool is_lower(char letter) { return letter >= 'a' && letter <= 'z'; }

/// The advice as sentences: a capital at its beginning, unless it begins with a name of code ("a.values",
/// "quantize_tokens"), and a full stop at its end.
std::string sentence(std::string text) {
    std::size_t word = 0;
    while (word < text.size() && is_lower(text[word])) ++word;
    const bool is_word = word > 1 && (word == text.size() || std::string_view(" ,:").find(text[word]) < 3);
    if (is_word) text.front() = static_cast<char>(text.front() - 'a' + 'A');
    if (std::string_view(".?!").find(text.back()) == std::string_view::npos) text += '.';
    return text;
}

}  // namespace

std::string Finding::message() const {
    std::string text = operand + ": got " + given + "; expected " + expected + ".";
    if (!advice.empty()) text += " " + sentence(advice);
    return text;
}

Error::Error(std::vector<Finding> findings) : std::runtime_error(joined(findings)), findings_(std::move(findings)) {}

}  // namespace tilewright
