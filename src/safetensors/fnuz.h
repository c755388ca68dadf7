// The fp8 formats without infinity and -0 of AMD's MI300, F8_E4M3FNUZ and F8_E5M2FNUZ, as the formats of OCP. The bits
// of a code are half of OCP's number, but for 0x80, which is NaN, and for the codes of OCP's NaN and infinities, which
// are numbers. Source: the float8 types of ml_dtypes and of StableHLO.
#pragma once

#include <tilewright/problem.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace tilewright::safetensors {

/// The OCP format of the same fields; nothing for other dtypes.
std::optional<Format> fnuz_sibling(std::string_view dtype);

/// The number of a code of the sibling's fnuz format.
float fnuz_number(Format sibling, std::uint8_t code);

/// Makes an operand [rows, k] of fnuz codes, row-major, one of the sibling's: block by block codes of twice the numbers
/// with half the scale or, where a number is too large for that, codes of the numbers. False, and nothing is changed,
/// where a block has neither.
bool recode_fnuz(Format sibling, const Operand& operand);

}  // namespace tilewright::safetensors
