// The fp8 formats of AMD's MI300 without infinity and -0, F8_E4M3FNUZ and F8_E5M2FNUZ, as formats of OCP. The bits of a
// code mean half of OCP's number. Exceptions: 0x80 is NaN, and the codes of OCP's NaN and infinities are numbers.
// Source: the float8 types of ml_dtypes and of StableHLO.
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

/// Converts a row-major operand [rows, k] of fnuz codes, in place, to the OCP sibling. Each block gets codes of twice
/// the numbers and half the scale. If a number is too large for that, the block gets codes of the same numbers and
/// keeps its scale. If a block supports neither, nothing is changed and the result is false.
bool recode_fnuz(Format sibling, const Operand& operand);

}  // namespace tilewright::safetensors
