#include "safetensors/json_text.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

namespace tilewright::safetensors {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Bytes of the UTF-8 sequence at the beginning of `text`; 0 where it is none, too long or half a surrogate pair.
std::size_t sequence_bytes(std::string_view text) {
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4) return 0;
    for (std::size_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xC0U) != 0x80U) return 0;
    }
    const unsigned second = byte(1);
    const bool outside = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                         (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
    return outside ? 0 : bytes;
}

/// Half a surrogate pair becomes three bytes too: keys are only compared.
void append_utf8(std::string& text, std::uint32_t code) {
    const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
    const auto following = [&](int shift) { add(0x80U | (code >> shift & 0x3FU)); };
    if (code < 0x80) {
        add(code);
    } else if (code < 0x800) {
        add(0xC0U | code >> 6);
        following(0);
    } else if (code < 0x10000) {
        add(0xE0U | code >> 12);
        following(6);
        following(0);
    } else {
        add(0xF0U | code >> 18);
        following(12);
        following(6);
        following(0);
    }
}

class Reader {
public:
    explicit Reader(std::string_view text) : text_(text) {}

    void skip_space() {
        while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos) ++at_;
    }

    bool take(std::string_view word) {
        if (!text_.substr(at_).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }

    void expect(std::string_view word) {
        if (!take(word)) fail(fmt::format("'{}' is expected", word));
    }

    void expect_end() {
        skip_space();
        if (at_ != text_.size()) fail("the text goes on after its value");
    }

    std::string key() {
        std::string word = string();
        skip_space();
        expect(":");
        return word;
    }

    /// Any value, without recursion: texts may nest to any depth.
    std::string_view value() {
        skip_space();
        const std::size_t begin = at_;
        std::string open;  // brackets, the innermost last
        for (bool complete = false; !complete || !open.empty();) {
            skip_space();
            complete = begin_value(open);
            while (complete && !open.empty()) complete = goes_up(open);
        }
        return text_.substr(begin, at_ - begin);
    }

    std::string string() {
        expect("\"");
        std::string word;
        while (!take("\"")) {
            if (at_ == text_.size()) fail("the text ends within a string");
            if (static_cast<unsigned char>(text_[at_]) < 0x20) fail("a string has a control character");
            const std::size_t bytes = sequence_bytes(text_.substr(at_));
            if (bytes == 0) fail("the text is not UTF-8");
            if (take("\\")) {
                append_utf8(word, escaped());
            } else {
                word += text_.substr(at_, bytes);
                at_ += bytes;
            }
        }
        return word;
    }

private:
    [[noreturn]] void fail(const std::string& what) const {
        throw JsonTextError(fmt::format("byte {}: {}", at_, what));
    }

    /// Whether the value is complete; else its first part is the next value.
    bool begin_value(std::string& open) {
        const bool object = take("{");
        if (object || take("[")) {
            skip_space();
            if (take(object ? "}" : "]")) return true;
            open += object ? '{' : '[';
            if (object) key();
            return false;
        }
        if (at_ < text_.size() && text_[at_] == '"') {
            string();
        } else if (!take("true") && !take("false") && !take("null")) {
            number();
        }
        return true;
    }

    /// After a value in brackets: whether these are closed, so that theirs is complete; else another one follows.
    bool goes_up(std::string& open) {
        const bool object = open.back() == '{';
        skip_space();
        if (take(",")) {
            skip_space();
            if (object) key();
            return false;
        }
        expect(object ? "}" : "]");
        open.pop_back();
        return true;
    }

    void number() {
        if (take("NaN")) return;
        take("-");
        if (take("Infinity")) return;
        if (!take("0")) digits("a value is expected");
        if (take(".")) digits("digits are expected");
        if (!take("e") && !take("E")) return;
        if (!take("+")) take("-");
        digits("digits are expected");
    }

    void digits(const char* otherwise) {
        const std::size_t begin = at_;
        while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
        if (at_ == begin) fail(otherwise);
    }

    std::uint32_t hexadecimal() {
        std::uint32_t code = 0;
        for (int i = 0; i < 4; ++i, ++at_) {
            const char digit = at_ < text_.size() ? text_[at_] : '\0';
            const std::size_t value = std::string_view("0123456789abcdef0123456789ABCDEF").find(digit);
            if (value == std::string_view::npos) fail("four hexadecimal digits are expected");
            code = code << 4 | static_cast<std::uint32_t>(value % 16);
        }
        return code;
    }

    std::uint32_t escaped() {
        constexpr std::string_view letters = "\"\\/bfnrt";
        constexpr std::array<std::uint32_t, 8> codes{'"', '\\', '/', '\b', '\f', '\n', '\r', '\t'};
        const std::size_t letter = at_ < text_.size() ? letters.find(text_[at_]) : std::string_view::npos;
        if (letter != std::string_view::npos) {
            ++at_;
            return codes[letter];
        }
        expect("u");
        const std::uint32_t high = hexadecimal();
        if (high < 0xD800 || high > 0xDBFF || !text_.substr(at_).starts_with("\\u")) return high;
        const std::size_t before = at_;
        at_ += 2;
        const std::uint32_t low = hexadecimal();
        if (low >= 0xDC00 && low <= 0xDFFF) return 0x10000U + ((high - 0xD800U) << 10) + (low - 0xDC00U);
        at_ = before;
        return high;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

}  // namespace

std::vector<JsonMember> json_members(std::string_view text) {
    Reader reader(text);
    std::vector<JsonMember> members;
    reader.skip_space();
    reader.expect("{");
    reader.skip_space();
    if (!reader.take("}")) {
        do {
            reader.skip_space();
            JsonMember member{.key = reader.key()};
            member.value = reader.value();
            members.push_back(std::move(member));
            reader.skip_space();
        } while (reader.take(","));
        reader.expect("}");
    }
    reader.expect_end();
    return members;
}

void check_json(std::string_view text) {
    Reader reader(text);
    reader.value();
    reader.expect_end();
}

std::string with_values(std::string_view text, const OtherValue& other) {
    std::string changed;
    std::size_t done = 0;
    for (const JsonMember& member : json_members(text)) {
        const std::optional<std::string> value = other(member);
        if (!value) continue;
        const auto begin = static_cast<std::size_t>(member.value.data() - text.data());
        changed += text.substr(done, begin - done);
        changed += *value;
        done = begin + member.value.size();
    }
    changed += text.substr(done);
    return changed;
}

std::string with_member(std::string_view text, const std::string& key, std::string_view value) {
    const std::vector<JsonMember> members = json_members(text);
    const std::size_t brace = text.find('{') + 1;
    if (members.empty()) return fmt::format("{}\"{}\": {}{}", text.substr(0, brace), key, value, text.substr(brace));
    const std::string_view last = members.back().value;
    const auto end = static_cast<std::size_t>(last.data() - text.data()) + last.size();
    const std::string_view space = text.substr(brace, text.find_first_not_of(" \t\n\r", brace) - brace);
    return fmt::format("{},{}\"{}\": {}{}", text.substr(0, end), space, key, value, text.substr(end));
}

}  // namespace tilewright::safetensors
