// The safetensors reader takes what the format allows, refuses everything else by name, and never crashes.
#include "safetensors/safetensors.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "output/temporary_folder.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

std::string length_prefix(std::uint64_t length) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xFF);
    return bytes;
}

std::string file_of(const std::string& header, std::size_t data_bytes) {
    return length_prefix(header.size()) + header + std::string(data_bytes, '\x11');
}

/// What reading this file says; empty if it is read.
std::string refusal(const std::string& bytes) {
    const TemporaryFolder folder;
    const std::string path = folder.file("x.safetensors");
    test::write_file(path, bytes);
    try {
        const SafetensorsReader reader(path);
    } catch (const SafetensorsError& error) {
        const std::string text = error.what();
        EXPECT_EQ(text.rfind(path + ": ", 0), 0U) << text;
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
        return text.substr(path.size() + 2);
    }
    return "";
}

std::string header_refusal(const std::string& header, std::size_t data_bytes) {
    return refusal(file_of(header, data_bytes));
}

const std::string good =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},)"
    R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"empty":{"dtype":"I64","shape":[0,7],"data_offsets":[28,28]},)"
    R"("scalar":{"dtype":"F8_E4M3","shape":[],"data_offsets":[28,29]},)"
    R"("nibbles":{"dtype":"F4","shape":[3,2],"data_offsets":[29,32]}}   )";

TEST(Safetensors, ReadsWhatTheFormatAllows) {
    const TemporaryFolder folder;
    const std::string path = folder.file("good.safetensors");
    std::string bytes = file_of(good, 32);
    bytes[bytes.size() - 32 + 4] = 'x';
    test::write_file(path, bytes);
    const SafetensorsReader reader(path);
    const auto& [tensors, metadata] = reader.header();
    ASSERT_EQ(tensors.size(), 5U);
    EXPECT_EQ(tensors[0].name, "a");  // in the order of the data
    EXPECT_EQ(tensors[1].name, "b");
    EXPECT_EQ(tensors[1].shape, (std::vector<std::uint64_t>{2, 3}));
    EXPECT_EQ(tensors[1].bytes(), 24U);
    EXPECT_EQ(metadata.at("format"), "pt");
    std::string data(2, ' ');
    reader.read(tensors[1], 0, data.data(), 2);
    EXPECT_EQ(data, "x\x11");
    EXPECT_THROW(reader.read(tensors[1], 23, data.data(), 2), std::logic_error);
}

TEST(Safetensors, ReadsAFileWithoutTensors) { EXPECT_EQ(header_refusal("{}", 0), ""); }

TEST(Safetensors, ReadsWhatTheFormatsOwnReaderDoes) {
    EXPECT_EQ(header_refusal("{} \t\r\n   ", 0), "");
    EXPECT_EQ(header_refusal(R"({"__metadata__":null})", 0), "");
    EXPECT_EQ(header_refusal(R"({"t":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}})", 0), "");
    EXPECT_EQ(header_refusal(R"({"":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", 1), "");
}

TEST(Safetensors, RefusesEveryTruncation) {
    const std::string bytes = file_of(good, 32);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        EXPECT_NE(refusal(bytes.substr(0, length)), "") << length << " bytes";
    }
    EXPECT_EQ(refusal(bytes), "");
    EXPECT_EQ(refusal(bytes + "x"), "the tensors end at byte 32 of the data, the file at 33");
}

TEST(Safetensors, RefusesABadLength) {
    EXPECT_EQ(refusal(""), "0 bytes are too few for a safetensors file");
    EXPECT_EQ(refusal(length_prefix(0)), "the header is not a JSON object");
    EXPECT_EQ(refusal("abc"), "3 bytes are too few for a safetensors file");
    EXPECT_NE(refusal(length_prefix(~std::uint64_t{0}) + "{}").find("claims a header of 18446744073709551615 bytes"),
              std::string::npos);
    EXPECT_NE(refusal(length_prefix(3) + "{}").find("truncated"), std::string::npos);
    EXPECT_NE(refusal(length_prefix(100'000'001) + "{}").find("claims a header"), std::string::npos);
}

TEST(Safetensors, SaysWhyAFileCannotBeOpened) {
    const TemporaryFolder folder;
    for (const std::string& path : {folder.file("none.safetensors"), folder.path().string()}) {
        try {
            const SafetensorsReader reader(path);
            ADD_FAILURE() << path;
        } catch (const SafetensorsError& error) {
            EXPECT_EQ(std::string(error.what()).rfind(path + ": ", 0), 0U);
        }
    }
}

struct BadHeader {
    std::string header;
    std::size_t data_bytes;
    std::string message;  // what the refusal contains
};

std::string one(const std::string& tensor) { return R"({"t":)" + tensor + "}"; }

TEST(Safetensors, NamesWhatIsWrongInAHeader) {
    const std::vector<BadHeader> cases{
        {"", 0, "the header is not a JSON object"},
        {"[]", 0, "the header is not a JSON object"},
        {" {}", 0, "the header is not a JSON object"},
        {"{", 0, "no valid JSON"},
        {"{}{}", 0, "no valid JSON"},
        {"{} {}", 0, "no valid JSON"},
        {"{}x", 0, "no valid JSON"},
        {"{}]", 0, "no valid JSON"},
        {"{}\xa0", 0, "no valid JSON"},
        {std::string("{}\0", 3), 0, "byte 2 of it is NUL"},
        {std::string("{}  \0\0\0\0", 8), 0, "byte 4 of it is NUL"},
        {std::string("{}\0{}", 5), 0, "byte 2 of it is NUL"},
        {std::string("{\0}", 3), 0, "byte 1 of it is NUL"},
        {std::string("{\"a\0\":1}", 8), 0, "byte 3 of it is NUL"},
        {"{\"t\": /* a comment */ 1}", 0, "no valid JSON"},
        {"{\"t\":NaN}", 0, "no valid JSON"},
        {"{\"\\ud800\":1}", 0, "no valid JSON"},
        {"{\"\xc0\x80\":1}", 0, "no valid JSON"},
        {"\xef\xbb\xbf{}", 0, "the header is not a JSON object"},
        {R"({"t":{"dtype":"F32",})", 0, "no valid JSON"},
        {"{\"\xff\":1}", 0, "no valid JSON"},
        {R"({"t":3})", 0, "tensor 't' is a number, not an object"},
        {R"({"t":[]})", 0, "tensor 't' is an array, not an object"},
        {R"({"t":null})", 0, "tensor 't' is null"},
        {R"({"t":"x"})", 0, "tensor 't' is a string"},
        {R"({"t":true})", 0, "tensor 't' is true or false"},
        {R"({"__metadata__":3})", 0, "__metadata__ is a number, not an object with strings"},
        {R"({"__metadata__":["a"]})", 0, "__metadata__ is an array, not an object with strings"},
        {R"({"__metadata__":{"a":null}})", 0, "__metadata__ has null for 'a'"},
        {R"({"__metadata__":{"a":1.5}})", 0, "__metadata__ has the number 1.5 for 'a'"},
        {R"({"__metadata__":{"a":3}})", 0, "__metadata__ has a number for 'a', not a string"},
        {R"({"__metadata__":{"a":{}}})", 0, "__metadata__ has an object for 'a'"},
        {R"({"__metadata__":{"a":"b","a":"c"}})", 0, "__metadata__ has the key 'a' twice"},
        {one("{}"), 0, "tensor 't' has no dtype"},
        {one(R"({"dtype":"F32"})"), 0, "tensor 't' has no shape"},
        {one(R"({"dtype":"F32","shape":[]})"), 0, "tensor 't' has no data_offsets"},
        {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})"), 4, "has 1 data_offsets"},
        {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,2,4]})"), 4, "has 3 data_offsets"},
        {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1})"), 4, "has the unknown key 'x'"},
        {one(R"({"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})"), 4, "has dtype twice"},
        {one(R"({"dtype":3,"shape":[1],"data_offsets":[0,4]})"), 4, "a number in dtype, where a string is expected"},
        {one(R"({"dtype":["F32"],"shape":[1],"data_offsets":[0,4]})"), 4, "an array in dtype"},
        {one(R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})"), 4, "a number in shape"},
        {one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), 4, "a negative number in shape"},
        {one(R"({"dtype":"F32","shape":[1.0],"data_offsets":[0,4]})"), 4, "the number 1.0 in shape"},
        {one(R"({"dtype":"F32","shape":["1"],"data_offsets":[0,4]})"), 4, "a string in shape"},
        {one(R"({"dtype":"F32","shape":[[1]],"data_offsets":[0,4]})"), 4, "an array in shape"},
        {one(R"({"dtype":"F32","shape":[{}],"data_offsets":[0,4]})"), 4, "an object in shape"},
        {one(R"({"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]})"), 4, "in shape"},
        {one(R"({"dtype":"f32","shape":[1],"data_offsets":[0,4]})"), 4, "unknown dtype 'f32'; known: BOOL, F4"},
        {one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})"), 4,
         "has the data_offsets [4, 0]: its end is before its beginning"},
        {one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})"), 4, "the file may be truncated"},
        {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,3]})"), 3, "shape [1] cannot have 3 bytes"},
        {one(R"({"dtype":"F4","shape":[3],"data_offsets":[0,2]})"), 2, "shape [3] cannot have 2 bytes"},
        {one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})"), 0, "cannot have 0 bytes"},
        {one(R"({"dtype":"U8","shape":[1],"data_offsets":[1,2]})"), 2, "begins at byte 1 of the data, leaving a hole"},
        {one(R"({"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]})"), 0, "cannot have 0 bytes"},
        {one(R"({"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,4]})"), 4, "cannot have 4 bytes"},
        {one(R"({"dtype":"F32","shape":[-0],"data_offsets":[0,4]})"), 4, "in shape"},
        {one(R"({"dtype":"F32","shape":[1e0],"data_offsets":[0,4]})"), 4, "the number 1e0 in shape"},
        {one(R"({"dtype":"F32","shape":[true],"data_offsets":[0,4]})"), 4, "true or false in shape"},
        {one(R"({"dtype":"F32","shape":null,"data_offsets":[0,4]})"), 4, "null in shape"},
        {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]})"), 4, "may be truncated"},
        {one(R"({"dtype":"F32","shape":[1],"data_offsets":[-4,0]})"), 4, "a negative number in data_offsets"},
        {one(R"({"dtype":"F8_E3M4","shape":[1],"data_offsets":[0,1]})"), 1, "unknown dtype 'F8_E3M4'"},
        {one(R"({"dtype":"","shape":[1],"data_offsets":[0,1]})"), 1, "unknown dtype ''"},
        {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0074":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
         2, "tensor 't' appears twice"},
        {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"u":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
         1, "overlapping"},
        {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"u":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
         3, "leaving a hole"},
        {one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})"), 2,
         "the tensors end at byte 1 of the data, the file at 2"},
        {R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"u":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
         3, "tensor 'u' begins at byte 1 of the data, overlapping"},
        {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
         2, "tensor 't' appears twice"},
        {"{\"" + std::string(2000, 'n') + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
         "has a name of 2000 bytes; at most 1024"},
        {"{\"t\":" + std::string(100'000, '['), 0, "tensor 't' is an array"},
    };
    for (const BadHeader& bad : cases) {
        const std::string text = header_refusal(bad.header, bad.data_bytes);
        EXPECT_NE(text.find(bad.message), std::string::npos) << bad.header.substr(0, 200) << "\n  said: " << text;
    }
}

/// Whatever bytes come: a refusal, or tensors that cover the data.
void expect_sound_or_refused(const std::string& header, std::uint64_t data_bytes) {
    try {
        const SafetensorsHeader parsed = parse_header(header, data_bytes);
        std::uint64_t position = 0;
        for (const StoredTensor& tensor : parsed.tensors) {
            ASSERT_EQ(tensor.begin, position) << header;
            ASSERT_EQ(stored_bytes(tensor.dtype, tensor.shape), tensor.bytes()) << header;
            position = tensor.end;
        }
        ASSERT_EQ(position, data_bytes) << header;
    } catch (const SafetensorsError&) {
    }
}

TEST(Safetensors, SurvivesAnyBytes) {
    std::mt19937 random(20'260'101);
    const std::string words = "{}[]\":,0123456789-.eE\\ \tF4U8shapedtype__metadata__data_offsets";
    for (int round = 0; round < 30'000; ++round) {
        std::string header = good;
        const int changes = 1 + static_cast<int>(random() % 4);
        for (int i = 0; i < changes; ++i) {
            const std::size_t at = random() % header.size();
            switch (random() % 5) {
                case 0: header[at] = static_cast<char>(random()); break;
                case 1: header[at] = words[random() % words.size()]; break;
                case 2: header.erase(at, 1 + random() % 8); break;
                case 3: header.insert(at, 1, words[random() % words.size()]); break;
                default: header.insert(at, header.substr(random() % header.size(), random() % 40)); break;
            }
            if (header.empty()) header = "{";
        }
        expect_sound_or_refused(header, 32);
    }
    for (int round = 0; round < 3'000; ++round) {
        std::string header(random() % 64, ' ');
        for (char& c : header) c = round % 2 == 0 ? words[random() % words.size()] : static_cast<char>(random());
        expect_sound_or_refused("{" + header, random() % 8);
    }
}

}  // namespace
}  // namespace tilewright::safetensors
