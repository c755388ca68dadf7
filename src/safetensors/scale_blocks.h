// Which elements of a matrix share a scale, from the shapes of both in a file and from config.json. A shape that two
// block sizes explain is refused, because the wrong one gives numbers that look right.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tilewright::safetensors {

/// Rows and columns of a matrix that share a scale; 0: all of them.
struct ScaleBlocks {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    bool operator==(const ScaleBlocks&) const = default;
};

/// Scales as a file has them: for each group `lines` x `columns`, of which the first belong to blocks.
struct StoredScales {
    ScaleBlocks blocks{};
    std::int64_t lines = 1;
    std::int64_t columns = 1;
    bool shared = true;   // by all groups
    bool padded = false;  // there are more than blocks
};

/// The values as a file has them, in elements. `transposed`: rows are k, columns n.
struct StoredShape {
    std::optional<std::int64_t> groups{};
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    bool transposed = false;
};

/// The rules for the blocks of operands [n, k] that do not depend on the scales' shape.
struct BlockRules {
    std::optional<ScaleBlocks> fixed{};       // The format has no other.
    std::optional<ScaleBlocks> configured{};  // weight_block_size of config.json.
    bool squares = false;                     // Without a word in config.json the publisher's are 128 x 128.
    bool powers = false;                      // The scales are powers of two; MX has one per 32 k-elements.
};

/// Either `scales`, or the expectation of their shape.
struct ScaleFit {
    std::optional<StoredScales> scales{};
    std::string expected{};
};
ScaleFit fit_scales(const StoredShape& values, const std::vector<std::uint64_t>& scales, const BlockRules& rules);

}  // namespace tilewright::safetensors
