// Fuzzes config.json: the description of the quantization is replaced, and every other byte stays.
#include <nlohmann/json.hpp>

#include "fuzz/target.h"
#include "fuzz/text.h"
#include "safetensors/config_text.h"
#include "safetensors/json_text.h"

namespace tilewright::fuzz {
namespace {

using safetensors::JsonTextError;
using safetensors::with_description;

const std::string marker = "{\"quant_method\": \"marker\"}";

/// A text, and what it is with `marker` for each description.
struct Drawn {
    std::string before;
    std::string after;

    void add(const std::string& text) {
        before += text;
        after += text;
    }
};

/// One object, whose parts may have descriptions too; how many descriptions it has itself.
int draw_object(Bytes& bytes, Drawn& drawn, bool is_part) {
    int count = 0;
    drawn.add("{");
    for (std::int64_t left = bytes.up_to(5); left > 0; --left) {
        drawn.add(random_space(bytes));
        const std::int64_t kind = bytes.up_to(5);
        if (kind == 0) {
            drawn.add(bytes.pick<const char*>(
                {"\"quantization_config\"", "\"compression_config\"", "\"quantization\\u005fconfig\""}));
            drawn.add(random_space(bytes) + ":" + random_space(bytes));
            drawn.before += random_json(bytes, 2, true);
            drawn.after += marker;
            ++count;
        } else if (kind == 1 && !is_part) {
            drawn.add(random_string(bytes, true) + ":" + random_space(bytes));
            draw_object(bytes, drawn, true);
        } else {
            drawn.add(random_string(bytes, true) + random_space(bytes) + ":" + random_space(bytes));
            drawn.add(random_json(bytes, 3, true));
        }
        drawn.add(random_space(bytes) + (left > 1 ? "," : ""));
    }
    drawn.add("}");
    return count;
}

std::string replaced(const std::string& config) {
    return with_description(config, [](std::string_view, std::optional<std::size_t>) { return marker; });
}

Outcome well_formed(const Drawn& drawn, int count) {
    const std::string after = replaced(drawn.before);
    std::string failure;
    if (count > 0 && after != drawn.after) failure = "expected: " + drawn.after + "\ngot: " + after;
    // One more member: taken out, the rest is as it was drawn.
    const std::size_t at = count > 0 ? 0 : after.rfind("\"quantization_config\": " + marker);
    if (at == std::string::npos) {
        failure = "no description in: " + after;
    } else if (count == 0) {
        std::size_t begin = at;
        while (begin > 0 && std::string_view(" \t\r\n").find(after[begin - 1]) != std::string_view::npos) --begin;
        if (after[begin - 1] == ',') --begin;
        const std::string tail = after.substr(at + std::string("\"quantization_config\": ").size() + marker.size());
        const bool same = drawn.after.starts_with(after.substr(0, begin)) && drawn.after.ends_with(tail);
        if (!same || drawn.after.size() < begin + tail.size()) failure = "other bytes differ: " + after;
    }
    return {.kind = Kind::well_formed, .call = drawn.before, .failure = failure};
}

/// Whatever it is: as strict as a JSON parser, and the same after the same values were put in.
Outcome noise(const std::string& text) {
    Outcome outcome{.kind = Kind::garbage, .call = text, .failure = {}};
    const bool accepted_elsewhere = nlohmann::json::accept(text) && text.find('\0') == std::string::npos &&
                                    !text.starts_with("\xef\xbb\xbf") && text.find_first_of("{[\"") == text.find('{');
    try {
        const std::string once = replaced(text);
        if (replaced(once) != once) outcome.failure = "not the same when done twice: " + once;
        const std::string kept = with_description(
            once, [](std::string_view before, std::optional<std::size_t>) { return std::string(before); });
        if (kept != once) outcome.failure = "the same values change the text: " + kept;
    } catch (const JsonTextError& error) {
        const bool object = text.find_first_not_of(" \t\r\n") == text.find('{') && text.find('{') != std::string::npos;
        if (accepted_elsewhere && object) outcome.failure = std::string("a JSON object is refused: ") + error.what();
        outcome.kind = Kind::malformed;
    }
    return outcome;
}

/// Changes of which each makes a text wrong.
Outcome spoiled(std::string text, Bytes& bytes) {
    const std::int64_t how = bytes.up_to(5);
    if (how == 0) text.resize(static_cast<std::size_t>(bytes.up_to(static_cast<std::int64_t>(text.rfind('}')))));
    if (how == 1) text += bytes.pick<const char*>({"{}", "x", "}", ",", "null"});
    if (how == 2) text += '\0';
    if (how == 3) text.insert(0, bytes.pick<const char*>({"\xef\xbb\xbf", "[", "1 ", "\xff"}));
    if (how == 4)
        text.insert(text.find('{') + 1,
                    bytes.pick<const char*>({",", "\"a\",", "\"a\":-NaN,", "\"a\":01,", "a:1,", "'a':1,"}));
    if (how == 5)
        text.insert(text.find('{') + 1,
                    bytes.pick<const char*>({"\"\xff\":1,", "\"\n\":1,", "\"\\x\":1,", "\"\xed\xa0\x80\":1,"}));
    Outcome outcome{.kind = Kind::malformed, .call = text, .failure = {}};
    try {
        outcome.failure = "taken, as: " + replaced(text);
    } catch (const JsonTextError&) {
    }
    return outcome;
}

}  // namespace

Outcome fuzz(std::span<const std::uint8_t> data) {
    Bytes bytes(data);
    const std::int64_t kind = bytes.up_to(3);
    Drawn drawn;
    drawn.add(random_space(bytes));
    const int count = draw_object(bytes, drawn, false);
    drawn.add(random_space(bytes));
    try {
        if (kind == 0) return spoiled(drawn.before, bytes);
        return kind == 1 ? well_formed(drawn, count) : noise(mutated(drawn.before, bytes));
    } catch (const std::exception& error) {
        return {.kind = Kind::well_formed, .call = drawn.before, .failure = error.what()};
    }
}

}  // namespace tilewright::fuzz
