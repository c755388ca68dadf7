// The record of how an output file was made, written into its metadata. Another run keeps the file only if it would
// write the same record.
#pragma once

#include <string>

#include "safetensors/conversion.h"

namespace tilewright::safetensors {

/// The metadata with the record.
inline constexpr const char* record_key = "tilewright.conversion";

/// The record: the version, all options, and which tensors are converted and copied. For each file of the input that
/// has any of these tensors it has the file's identity and the digest of its header. It is JSON, which people can read
/// too.
std::string conversion_record(const Conversion& conversion, const OutputShard& shard);

/// Reads all of a file whose record is the one given.
EarlierFile earlier_file(const std::string& path, const std::string& record);

/// Waits, for 20 ms at most on most file systems, until a change of the input would give its files another time than
/// they have. A change within one tick of the file system's clock would leave no trace.
void wait_until_times_tell(const Checkpoint& input);

}  // namespace tilewright::safetensors
