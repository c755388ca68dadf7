// What the primitives' kernels are run on: cases that the emulator and a GPU both run, and whose results must be the
// same bits.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "emulator/emulator.h"
#include "emulator/primitives.h"
#include "primitives/kernels.h"

namespace tilewright::primitives {

/// A tensor in memory that a kernel's tensor map describes; who runs the case fills in its address.
struct Boxed {
    std::vector<std::byte> bytes;  // none: no map
    TensorMapDescription map{};
};

struct PrimitiveCase {
    std::string name;
    std::string expression;  // as NVRTC names the kernel
    std::function<void(const PrimitiveArguments&)> kernel;
    int threads = 128;
    int blocks = 1;  // one cluster
    Boxed a;
    Boxed b;
    Boxed d;
    std::vector<float> in;
    std::size_t out = 0;    // how many floats
    std::size_t words = 0;  // how many 64-bit words
    int count = 0;
    int x = 0;
    int y = 0;
};

/// What a kernel wrote; 0xFF where it wrote nothing.
struct PrimitiveResult {
    std::vector<std::byte> d;
    std::vector<std::byte> out;
    std::vector<std::byte> words;

    bool operator==(const PrimitiveResult&) const = default;
};

/// All of them.
std::vector<PrimitiveCase> cases();

/// Codes of a row-major tensor of `case_rows` rows and `case_k` columns, the same for the same seed.
inline constexpr int case_rows = 80;
inline constexpr int case_k = 176;
std::vector<std::byte> some_codes(int seed);

/// The box at (x, y) of two such tensors, multiplied.
PrimitiveCase product_case(const std::vector<std::byte>& a, const std::vector<std::byte>& b, int x, int y);
PrimitiveCase store_case(int x, int y, bool transposed);
PrimitiveCase share_case(int x, int y);
/// Every `step`-th of some numbers, from the `first`-th on.
PrimitiveCase copy_case(int step, int first);
PrimitiveCase phases_case();
/// Not one of `cases`: on the emulator it is a deadlock, on a GPU a time-out at work_empty.
PrimitiveCase time_out_case();
/// For triples.
PrimitiveCase convert_case(std::vector<float> in);

PrimitiveResult run_on_emulator(const PrimitiveCase& primitive, emulator::Timing timing);

/// kernels.h as text, with what else NVRTC needs.
extern const char* const kernels_text;

}  // namespace tilewright::primitives
