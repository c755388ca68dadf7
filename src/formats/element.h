// Read and write one element of a tensor whose format is known at run time. Obvious rather than fast: for the
// reference, for tests and for the scales; bulk conversion is in convert.h.
#pragma once

#include "formats/codec.h"

#include <tilewright/formats.h>

#include <cstdint>

namespace tilewright::formats {

/// The fields of a signed floating-point format. Not for ue8m0, ue4m3 and the integers.
const Fields& fields(Format format);

/// Element `index` (counted in elements, for e2m1 too) as a double, exactly. Integers keep their value.
double load(const void* data, Format format, std::int64_t index);

/// Rounds to nearest even once, from double; saturates in formats narrower than f16, infinity otherwise. Canonical NaN.
/// Not for the integers.
void store(void* data, Format format, std::int64_t index, double value);

/// An element of an i32 or i64 tensor.
std::int64_t load_integer(const void* data, Format format, std::int64_t index);

}  // namespace tilewright::formats
