// JSON as Python's json module reads it.
#include "safetensors/json_text.h"

#include <gtest/gtest.h>

namespace tilewright::safetensors {
namespace {

std::string error(const std::string& text) {
    try {
        json_members(text);
    } catch (const JsonTextError& refused) {
        return refused.what();
    }
    return "";
}

TEST(JsonText, FindsWhatPythonDoes) {
    const std::string text =
        " \r\n\t{\"a\" : [0.0, Infinity, -Infinity, NaN, -0, 1E+5, 1.5e-7],\n"
        "\"\\u0061\\ud83d\\ude00\": 123456789012345678901234567890, \"\\ud800\":\"\\ud800x\\\"}\", \"\xc3\xa9\": "
        "{\"b\": {}}, "
        "\"a\" :[ ] , \"\": null}\n ";
    const std::vector<JsonMember> members = json_members(text);
    ASSERT_EQ(members.size(), 6U);
    EXPECT_EQ(members[0].key, "a");
    EXPECT_EQ(members[0].value, "[0.0, Infinity, -Infinity, NaN, -0, 1E+5, 1.5e-7]");
    EXPECT_EQ(members[1].key, "a\xf0\x9f\x98\x80");
    EXPECT_EQ(members[1].value, "123456789012345678901234567890");
    EXPECT_EQ(members[2].value, "\"\\ud800x\\\"}\"");
    EXPECT_EQ(members[3].key, "\xc3\xa9");
    EXPECT_EQ(members[3].value, "{\"b\": {}}");
    EXPECT_EQ(members[4].value, "[ ]");
    EXPECT_EQ(members[5].key, "");
    EXPECT_TRUE(json_members("{ }").empty());
    const std::string deep(100'000, '['), end(100'000, ']');
    EXPECT_EQ(json_members("{\"a\":" + deep + end + "}")[0].value.size(), 200'000U);
}

TEST(JsonText, RefusesWhatPythonDoes) {
    for (const char* text : {"",
                             " ",
                             "null",
                             "[]",
                             "{",
                             "{}{}",
                             "{} x",
                             "{\"a\":1,}",
                             "{\"a\" 1}",
                             "{a:1}",
                             "{'a':1}",
                             "{\"a\":01}",
                             "{\"a\":1.}",
                             "{\"a\":.5}",
                             "{\"a\":+1}",
                             "{\"a\":-}",
                             "{\"a\":-NaN}",
                             "{\"a\":+Infinity}",
                             "{\"a\":nan}",
                             "{\"a\":inf}",
                             "{\"a\":1e}",
                             "{\"a\":0x10}",
                             "{\"a\":True}",
                             "{\"a\":None}",
                             "{\"a\":\"\n\"}",
                             "{\"a\":\"\\x\"}",
                             "{\"a\":\"\\u12g4\"}",
                             "{\"a\":\"\\u123",
                             "{\"a\":\"b}",
                             "{\"a\":[1}",
                             "{\"a\":{]}",
                             "{\"a\":[1,]}",
                             "{\"a\":[1 2]}",
                             "{\"a\":1 \"b\":2}",
                             "{\"a\":}",
                             "{,}",
                             "\xef\xbb\xbf{}",
                             "{\"\xff\":1}",
                             "{\"\xc0\xaf\":1}",
                             "{\"\xed\xa0\x80\":1}",
                             "{\"\xf4\x90\x80\x80\":1}",
                             "{\"\xe2\x82\":1}",
                             "{\"a\":1} // no",
                             "{/**/}",
                             "{\"a\":Infinit}"}) {
        EXPECT_NE(error(text), "") << text;
    }
    EXPECT_NE(error(std::string("{}\0", 3)), "");
    EXPECT_NE(error(std::string("{\"a\":\"\0\"}", 9)), "");
    EXPECT_EQ(error("{\"a\": 1, \"b\": tru}"), "byte 14: a value is expected");
    EXPECT_NE(error("{\"a\":" + std::string(1'000'000, '[')), "");
}

TEST(JsonText, ChangesMembersAndNothingElse) {
    const auto other = [](const JsonMember& member) {
        return member.key == "q" ? std::optional<std::string>("{}") : std::nullopt;
    };
    EXPECT_EQ(with_values("{\"a\" : NaN, \"q\":[1, 2] , \"q\" : 3, \"\\u0071\": 4}\n", other),
              "{\"a\" : NaN, \"q\":{} , \"q\" : {}, \"\\u0071\": {}}\n");
    EXPECT_EQ(with_values("{\"a\": {\"q\": 1}}", other), "{\"a\": {\"q\": 1}}");
    EXPECT_EQ(with_member("{}\n", "q", "1"), "{\"q\": 1}\n");
    EXPECT_EQ(with_member("{\r\n    \"a\": 1e400\r\n}", "q", "[]"), "{\r\n    \"a\": 1e400,\r\n    \"q\": []\r\n}");
    EXPECT_EQ(with_member("{\"a\":1}", "q", "2"), "{\"a\":1,\"q\": 2}");
}

}  // namespace
}  // namespace tilewright::safetensors
