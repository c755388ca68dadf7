// What a file of the output was made from, written into its metadata: another run keeps the file only where this is
// what it would write again.
#pragma once

#include <string>

#include "safetensors/conversion.h"

namespace tilewright::safetensors {

/// The metadata with the record.
inline constexpr const char* record_key = "tilewright.conversion";

/// The version, all options, which tensors are converted and copied, and of each file of the input that has any of
/// them: its identity and the digest of its header. As JSON, for people too.
std::string conversion_record(const Conversion& conversion, const OutputShard& shard);

/// Reads all of a file whose record is the one given.
EarlierFile earlier_file(const std::string& path, const std::string& record);

/// Waits, for 20 ms at most on most file systems, until a change of the input would give its files another time than
/// they have. A change within one tick of the file system's clock would leave no trace.
void wait_until_times_tell(const Checkpoint& input);

}  // namespace tilewright::safetensors
