// The exponents of decoded operands, as the codes that these kernels read. Compiled once per instruction level.
#include "cpu/exact/kinds.h"
#include "cpu/exact/vector.h"

namespace tilewright::cpu::TILEWRIGHT_ISA {
namespace {

using namespace vector;

/// Extents per lane.
struct Extents {
    Ints largest{};
    Ints smallest = all(0x7FFF'FFFF);

    void include(Ints magnitude) {
        largest = larger(largest, magnitude);
        smallest = smaller(smallest, magnitude == 0 ? all(0x7FFF'FFFF) : magnitude);
    }
    Extent over_lanes() const {
        Extent extent{.largest = largest[0], .smallest = smallest[0]};
        for (int i = 1; i < lanes; ++i) {
            extent.largest = largest[i] > extent.largest ? largest[i] : extent.largest;
            extent.smallest = smallest[i] < extent.smallest ? smallest[i] : extent.smallest;
        }
        return extent;
    }
};

template <class Kind>
inline Words code_of(const float* values, std::int32_t smallest_exponent, Extents& extents) {
    const Ints magnitude = load<Ints>(values) & 0x7FFF'FFFF;
    extents.include(magnitude);
    const Ints exponent = larger((magnitude >> 23) - 127, all(smallest_exponent));
    return (Words)(magnitude == 0 ? Ints{} : exponent + Kind::codes.bias);
}

template <class Kind>
Extent row_codes(const CodeArguments& s) {
    Extents extents;
    for (std::int64_t i = 0; i < s.count; i += lanes) {
        constexpr std::uint32_t replicate = Kind::codes.replicate();
        store(s.codes + i, code_of<Kind>(s.values + i, s.smallest_exponent, extents) * replicate);
    }
    return extents.over_lanes();
}

template <class Kind>
Extent panel_codes(const CodeArguments& s) {
    Extents extents;
    std::uint32_t* to = s.codes;
    for (std::int64_t i = 0; i < s.count; i += Kind::panel) {
        Words packed{};
        for (int group = 0; group < Kind::groups; ++group) {
            const Words code = code_of<Kind>(s.values + i + group * lanes, s.smallest_exponent, extents);
            packed |= code << (group * Kind::codes.bits);
        }
        store(to, packed);
        to += lanes;
    }
    return extents.over_lanes();
}

}  // namespace

Extent fp8_row_codes(const CodeArguments& s) { return row_codes<Fp8>(s); }
Extent bf16_row_codes(const CodeArguments& s) { return row_codes<Bf16>(s); }
Extent fp8_panel_codes(const CodeArguments& s) { return panel_codes<Fp8>(s); }
Extent bf16_panel_codes(const CodeArguments& s) { return panel_codes<Bf16>(s); }

}  // namespace tilewright::cpu::TILEWRIGHT_ISA
