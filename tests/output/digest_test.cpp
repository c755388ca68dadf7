// A digest is that of the bytes, however they are divided, and differs for other bytes.
#include "output/digest.h"

#include <gtest/gtest.h>

#include <set>

namespace tilewright::output {
namespace {

TEST(Digest, IsThatOfTheBytes) {
    std::string text;
    for (int i = 0; i < 100; ++i) text += static_cast<char>(i * 37);
    for (std::size_t first = 0; first <= text.size(); ++first) {
        for (std::size_t second = first; second <= text.size(); second += 7) {
            Digest parts;
            parts.add(text.substr(0, first));
            parts.add(text.substr(first, second - first));
            parts.add(text.substr(second));
            ASSERT_EQ(parts.text(), digest_of(text)) << first << ", " << second;
        }
    }
}

TEST(Digest, DiffersForOtherBytes) {
    std::set<std::string> seen;
    std::size_t count = 0;
    for (std::size_t length = 0; length <= 40; ++length, ++count) seen.insert(digest_of(std::string(length, '\0')));
    for (std::size_t at = 0; at < 40; ++at) {
        for (int bit = 0; bit < 8; ++bit, ++count) {
            std::string text(40, '\0');
            text[at] = static_cast<char>(1 << bit);
            seen.insert(digest_of(text));
        }
    }
    EXPECT_EQ(seen.size(), count);
    EXPECT_EQ(digest_of("x").size(), 16U);
}

}  // namespace
}  // namespace tilewright::output
