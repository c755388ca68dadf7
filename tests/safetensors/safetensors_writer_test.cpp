// The safetensors writer: files that the reader reads, whole or not at all, and known again later.
#include <gtest/gtest.h>

#include "output/temporary_folder.h"
#include "safetensors/safetensors.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
    const TemporaryFolder folder;
    const std::string path = folder.file("out.safetensors");
    SafetensorsWriter writer(path,
                             {{.name = "bytes", .dtype = "U8", .shape = {3}},
                              {.name = "wide", .dtype = "F32", .shape = {1, 2}},
                              {.name = "a \"b\" \xc3\xa9", .dtype = "F4", .shape = {4}}},
                             {{"who", "me"}});
    writer.write("bytes", 0, "abc", 3);
    writer.write("wide", 4, "5678", 4);  // in any order, in parts
    writer.write("wide", 0, "1234", 4);
    EXPECT_THROW(writer.commit(), std::logic_error);  // something is missing
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_THROW(writer.write("bytes", 2, "xx", 2), std::logic_error);
    writer.write("a \"b\" \xc3\xa9", 0, "\x12\x34", 2);
    writer.commit();
    EXPECT_EQ(folder.entries(), 1U);  // no temporary file is left

    const SafetensorsReader reader(path);
    ASSERT_EQ(reader.header().tensors.size(), 3U);
    EXPECT_EQ(reader.header().metadata.at("who"), "me");
    EXPECT_EQ(reader.header().tensors[0].name, "wide");
    std::string data(8, ' ');
    reader.read(reader.header().tensors[0], 0, data.data(), 8);
    EXPECT_EQ(data, "12345678");
    EXPECT_EQ(reader.header().tensors[2].name, "a \"b\" \xc3\xa9");
    EXPECT_EQ(std::filesystem::file_size(path) % 8, 13 % 8);  // header padded, data as long as it is
}

TEST(SafetensorsWriter, SaysWhetherAFileIsAsItWasWritten) {
    const TemporaryFolder folder;
    const std::string path = folder.file("out.safetensors");
    const auto as_written = [&] { return SafetensorsReader(path).is_as_written(); };
    for (const bool digest : {true, false}) {
        const Metadata metadata =
            digest ? Metadata{{file_digest_key, ""}, {"z", "\"tilewright.digest\":\"0\""}} : Metadata{};
        SafetensorsWriter writer(path, {{.name = "x", .dtype = "U8", .shape = {20}}}, metadata);
        writer.write("x", 13, "3456789", 7);
        writer.write("x", 0, "0123456789012", 13);
        writer.commit();
        EXPECT_EQ(as_written(), digest);
    }
    SafetensorsWriter writer(path, {{.name = "x", .dtype = "U8", .shape = {20}}}, {{file_digest_key, ""}});
    writer.write("x", 0, "01234567890123456789", 20);
    writer.commit();
    const std::string whole = test::read_file(path);
    const std::vector<std::pair<std::string, std::string>> changes{{"\"U8\"", "\"I8\""},
                                                                   {"\"x\"", "\"y\""},
                                                                   {"01234567890123456789", "01234567890123456788"},
                                                                   {"012345", "012354"}};
    for (const auto& [from, to] : changes) {
        std::string changed = whole;
        changed.replace(changed.find(from), from.size(), to);
        test::write_file(path, changed);
        EXPECT_FALSE(as_written()) << to;
    }
    test::write_file(path, whole);
    EXPECT_TRUE(as_written());
}

TEST(SafetensorsWriter, KeepsTheOldFileUntilTheNewOneIsComplete) {
    const TemporaryFolder folder;
    const std::string path = folder.file("out.safetensors");
    test::write_file(path, "old");
    {
        SafetensorsWriter writer(path, {{.name = "x", .dtype = "U8", .shape = {1}}}, {});
        EXPECT_EQ(folder.entries(), 2U);
    }
    EXPECT_EQ(folder.entries(), 1U);
    EXPECT_EQ(test::read_file(path), "old");
    EXPECT_THROW(SafetensorsWriter(folder.file("no/such/folder"), {}, {}), std::runtime_error);
    EXPECT_THROW(SafetensorsWriter(folder.path().string(), {}, {}), std::runtime_error);
}

}  // namespace
}  // namespace tilewright::safetensors
