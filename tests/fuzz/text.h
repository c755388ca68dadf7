// Texts for the fuzzers of files: JSON drawn from bytes, and changes that nothing is known of.
#pragma once

#include <string>

#include "fuzz/bytes.h"

namespace tilewright::fuzz {

/// Without white space, spaces, a line.
inline std::string random_space(Bytes& bytes) {
    return bytes.pick<const char*>({"", "", " ", "\n  ", "\t", "\r\n", "    "});
}

/// A string with its quotes: letters, escapes, UTF-8, and with `python` half a surrogate pair.
inline std::string random_string(Bytes& bytes, bool python) {
    std::string text = "\"";
    for (std::int64_t left = bytes.up_to(6); left > 0; --left) {
        text += bytes.pick<const char*>({"a", "b.0.", "\\n", "\\\"", "\\\\", "\\/", "\\u0041", "\\ud83d\\ude00",
                                         "\xc3\xa9", "\xf0\x9f\x98\x80", "{", "]", ",", ":", "}"});
        if (python && bytes.one_in(16)) text += "\\udc00";
    }
    return text + "\"";
}

/// Any value; with `python` also those that only Python's json reads.
inline std::string random_json(Bytes& bytes, int depth, bool python) {
    const std::int64_t kind = bytes.up_to(depth > 0 ? 7 : 4);
    if (kind == 0) return bytes.pick<const char*>({"true", "false", "null"});
    if (kind <= 2)
        return bytes.pick<const char*>({"0", "-0", "12", "-7.25", "1e5", "1E-07", "123456789012345678901234567890"});
    if (kind == 3 && python) return bytes.pick<const char*>({"NaN", "Infinity", "-Infinity", "1e400"});
    if (kind <= 4) return random_string(bytes, python);
    const bool object = kind > 5;
    std::string text = object ? "{" : "[";
    for (std::int64_t left = bytes.up_to(3); left > 0; --left) {
        text += random_space(bytes);
        if (object) text += random_string(bytes, python) + random_space(bytes) + ":";
        text +=
            random_space(bytes) + random_json(bytes, depth - 1, python) + random_space(bytes) + (left > 1 ? "," : "");
    }
    return text + (object ? "}" : "]");
}

/// One to four changes of bytes, words and parts.
inline std::string mutated(std::string text, Bytes& bytes) {
    for (std::int64_t left = bytes.between(1, 4); left > 0 && !text.empty(); --left) {
        const auto place = [&] {
            return static_cast<std::size_t>(bytes.up_to(static_cast<std::int64_t>(text.size()) - 1));
        };
        const std::size_t at = place();
        switch (bytes.up_to(4)) {
            case 0: text[at] = static_cast<char>(bytes.up_to(255)); break;
            case 1:
                text[at] = bytes.pick({'{', '}', '[', ']', '"', ',', ':', '\\', '0', '-', '.', 'e', ' ', '\0'});
                break;
            case 2: text.erase(at, static_cast<std::size_t>(bytes.between(1, 8))); break;
            case 3: text.insert(at, text.substr(place(), static_cast<std::size_t>(bytes.up_to(40)))); break;
            default:
                text.insert(
                    at, bytes.pick<const char*>({"NaN", "\"\":", "{}", "[", "}", "\\u00", "1e999", "\xff", "null,"}));
        }
    }
    return text;
}

}  // namespace tilewright::fuzz
