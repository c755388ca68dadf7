// The folder that a conversion writes: what is there already, what may be replaced or removed, and in which order its
// files appear. A run into a used folder leaves what a run into an empty one does.
//
// A run knows the files of an earlier one by `record_name`, which has the digest of each (of a shard that of its
// conversion_record). All other files are the user's: none is replaced or removed, and one that would become a part of
// the output is refused. While shards are written there is no index and no config.json, so that what a run that ended
// early has left is not taken for a checkpoint.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "safetensors/conversion.h"

namespace tilewright::safetensors {

class OutputFolder {
public:
    /// Reads what is there. Throws std::runtime_error for a file of the user's that would be lost or taken for a part
    /// of the output.
    explicit OutputFolder(Conversion& conversion);

    /// Before the first shard: makes the folder, removes what an earlier run has left.
    void begin();
    /// After the last one: all other files.
    void finish();

private:
    /// By file names, the digests of what runs have written.
    using Record = std::map<std::string, std::set<std::string>>;

    std::string path(const std::string& name) const;
    Record read_record() const;
    void write_record(const Record& record) const;
    void plan();
    bool is_from_earlier_run(const std::string& name) const;
    void check_planned();
    void check_others();
    void check_other(const std::string& name);
    bool is_unchanged(const std::string& name) const;

    Conversion& c_;
    Record earlier_;
    Record planned_;
    std::map<std::string, std::string> texts_;
    std::vector<std::string> stale_;
    bool is_complete_ = false;
};

}  // namespace tilewright::safetensors
