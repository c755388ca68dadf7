// The folder that a conversion writes: which files exist, which may be replaced or removed, and in which order files
// appear. A run into a used folder leaves the same files as a run into an empty one.
//
// - A run recognises the files of an earlier one by `record_name`, which has the digest of each file (for a shard, of
//   its conversion_record).
// - All other files are the user's. They are never replaced or removed. A user's file that would become a part of the
//   output is refused.
// - While shards are written, index and config.json are absent. The files of an interrupted run are then not mistaken
//   for a checkpoint.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "safetensors/conversion.h"

namespace tilewright::safetensors {

class OutputFolder {
public:
    /// Reads the folder. Throws std::runtime_error for a user's file that would be lost or become a part of the output.
    explicit OutputFolder(Conversion& conversion);

    /// Before the first shard: makes the folder, removes the files of an earlier run.
    void begin();
    /// After the last one: all other files.
    void finish();

private:
    /// The digests of the files that runs have written, by file name.
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
