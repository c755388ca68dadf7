// What a fake libcublasLt.so.13 has seen: shared by the fake and the tests that open it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace tilewright::test {

/// A matrix, or with groups arrays of their sizes, which a test reads where the fake GPU has them: in host memory.
struct FakeLayout {
    int type = 0;
    int groups = 0;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t pitch = 0;
    const std::int32_t* rows_of_groups = nullptr;
    const std::int32_t* columns_of_groups = nullptr;
    const std::int32_t* pitches_of_groups = nullptr;
};

struct FakeBlas {
    int live = 0;     // objects that were created and not destroyed
    int refused = 0;  // status of the heuristic
    int algorithms = 1;
    std::map<int, std::vector<std::byte>> attributes;   // of the operation
    std::map<int, std::vector<std::byte>> preferences;  // as they were set
    int calls = 0;
    const void* a = nullptr;
    const void* b = nullptr;
    void* d = nullptr;
    FakeLayout layout_of_a{};
    FakeLayout layout_of_b{};
    FakeLayout layout_of_d{};
};

}  // namespace tilewright::test

extern "C" tilewright::test::FakeBlas* tilewright_fake_blas();
