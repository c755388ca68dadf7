// Every malformed call of the tables gives its messages, all of them, and no other.
#include "problem/malformed.h"

#include <tilewright/error.h>
#include <tilewright/run.h>

#include <gtest/gtest.h>

#include <set>

namespace tilewright::test {
namespace {

std::vector<Malformed> all_malformed() {
    std::vector<Malformed> all;
    for (auto table :
         {malformed_shapes, malformed_groups, malformed_scales, malformed_block_scales, malformed_formats,
          malformed_strides, malformed_memory, malformed_options, malformed_hopper, malformed_packed, malformed_bias}) {
        for (Malformed& row : table()) all.push_back(std::move(row));
    }
    return all;
}

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
}

TEST(Malformed, ExactMessages) {
    for (const Malformed& row : all_malformed()) {
        Problem p = sample(row.spec);
        row.make(p);
        std::string given;
        for (const Finding& finding : validate(p, row.backend, row.check)) given += finding.message() + "\n";
        EXPECT_EQ(given, joined(row.messages)) << row.mistake;
    }
}

TEST(Malformed, RunThrowsAllFindingsAndTouchesNothing) {
    int ran = 0;
    for (const Malformed& row : all_malformed()) {
        if (row.check == Check::shapes) continue;
        ++ran;
        Problem p = sample(row.spec);  // its addresses cannot be read or written
        row.make(p);
        try {
            run(p, {.backend = row.backend});
            ADD_FAILURE() << row.mistake << ": run accepted it";
        } catch (const Error& error) {
            EXPECT_EQ(error.findings().size(), row.messages.size()) << row.mistake;
            EXPECT_EQ(error.what() + std::string("\n"), joined(row.messages)) << row.mistake;
        }
    }
    EXPECT_GE(ran, 80);
}

TEST(Malformed, TheTableIsLongAndSaysEachMistakeOnce) {
    const std::vector<Malformed> all = all_malformed();
    std::set<std::string> mistakes;
    for (const Malformed& row : all) {
        EXPECT_TRUE(mistakes.insert(row.mistake).second) << row.mistake;
        EXPECT_FALSE(row.messages.empty()) << row.mistake;
    }
    EXPECT_GE(all.size(), 80U);
}

}  // namespace
}  // namespace tilewright::test
