// The parameters of the kernels around the products of a layer of experts. Strides count elements.
#pragma once

#include "formats/gated_unit.h"
#include "formats/rank_words.h"
#include "hopper/moe/spec.h"
#include "hopper/quantize/arguments.h"
#include "hopper/quantize/quantizer.h"

namespace tilewright::hopper {

/// The rows that a kernel works on: tokens, or rows of [groups, room, features]. Blocks take parts of rows, one after
/// another.
struct RowGrid {
    int rows = 0;
    int room = 1;  // rows of a group
    int features = 0;
    int parts = 1;           // of a row
    int part_features = 0;   // of a part: one lane has 16, or 8 in `combine` and `unit_gradient`
    int rows_per_block = 1;  // `activate`: more than one where their lanes fill warps together, as rows of 768 do
};

/// The memory of the ranks of a group. All ranks have the same layout: an address of this rank plus a shift is the same
/// thing there.
struct RankShifts {
    i64 bytes[formats::most_ranks_at_barrier] = {};
    i64 stride = 0;  // not 0: from rank to rank, from bytes[0] on
    int room = 1;    // rows of a rank
    int count = 1;   // ranks
};

/// int32 or int64 numbers.
struct IntegerList {
    const void* data = nullptr;
    i64 stride = 0;
    bool is_wide = false;  // int64
    int count = 0;
};

/// Which rows exist; all if neither is given.
struct ExistingArguments {
    IntegerList ends{};
    int alignment = 1;  // a group begins at a multiple of it
    // The ends ascend and are in range, and groups follow each other.
    bool sorted = false;
    IntegerList counts{};  // of each group
};

/// A number per row and choice of it; null: 1, as for further choices.
struct FactorArguments {
    const void* data = nullptr;
    Number format = Number::f32;
    i64 group_stride = 0;
    i64 row_stride = 0;
    i64 choice_stride = 0;
    int choices = 0;
};

/// The rows to which the choices of a token belong; null: there is one place, which is the row itself.
struct PlaceArguments {
    const int* data = nullptr;
    i64 token_stride = 0;
    i64 choice_stride = 0;
    int choices = 0;
    int rows = 0;  // numbers from here on are not places
};

/// The sort of choices by expert. Choice i is i % choices of token i / choices.
struct RouteArguments {
    const void* ids = nullptr;
    i64 token_stride = 0;
    i64 choice_stride = 0;
    bool ids_are_wide = false;  // int64
    IntegerList map{};          // the local number of each number; null: numbers are local
    FactorArguments weights{};
    int tokens = 0;
    int given = 0;    // choices of a token that `ids` has
    int choices = 0;  // with those of shared experts, which are the last local experts
    int first = 0;    // without a map: the number of local expert 0
    int experts = 0;  // local
    RouteKeeps keeps = RouteKeeps::nothing;
    bool adjacent = false;  // choices are tokens, ids are int32 without a map, weights f32; both are adjacent
    // Each may be null.
    int* rows = nullptr;
    int* sources = nullptr;
    int* ends = nullptr;
    float* row_weights = nullptr;
    int* owner_rows = nullptr;  // [room, choices]: the rows of each rank's own choices, in its memory
    RankShifts owners{};
};

/// The choices of a rank's tokens, as other ranks read them: [room, choices].
struct AnnounceArguments {
    RouteArguments route{};  // tokens, ids and weights; choices with those of shared experts
    int room = 0;            // tokens of a rank
    // [numbers, copies]: the places of each number's copies, -1 after the last. Null: equal ranges of experts.
    const int* table = nullptr;
    int numbers = 0;
    int copies = 1;
    int routed = 1;        // experts of a rank without shared ones
    int shared = 0;        // of a rank
    int first_shared = 0;  // the place of this rank's first shared expert
    int* ids = nullptr;
    float* weights = nullptr;
    RankShifts to{};
    int ranks = 1;        // into whose memory they go
    int* rows = nullptr;  // [room, choices] here, set to -1; may be null
    formats::RankCounters* counters = nullptr;
    formats::RankWord* said = nullptr;  // null: a barrier carries the word
    formats::CallState state = formats::CallState::right;
};

enum class Collected : u8 { nothing, choices, rows, sums };

/// A barrier of ranks, and what a rank collects after it.
struct MeetArguments {
    RankShifts ranks{};
    int rank = 0;
    int count = 1;  // ranks
    formats::RankCounters* counters = nullptr;
    const formats::RankWord* said = nullptr;  // null: this is the barrier
    formats::CallState state = formats::CallState::right;
    int phase = 0;
    i64 nanoseconds = 0;
    formats::RankReport* report = nullptr;
    int experts = 0;  // of a rank
    int choices = 1;  // of a token
    int tokens = 0;   // of this rank
    Collected collects = Collected::nothing;
    const int* ids = nullptr;        // [room, choices]
    const float* weights = nullptr;  // as ids
    int* out = nullptr;
    float* out_weights = nullptr;
    const int* rows = nullptr;  // [room, choices]; null: each rank sent its rows in the order of choices
    int row_count = 0;          // of each rank
};

struct MeetAndRouteArguments {
    MeetArguments meet{};
    RouteArguments route{};
};

/// A matrix of rows that is written.
struct RowTarget {
    u8* data = nullptr;
    i64 group_stride = 0;
    i64 row_stride = 0;
    ScaleMatrix scales{};
    bool ue8m0 = false;  // scales; otherwise f32
};

struct PermuteArguments {
    RowGrid grid{};
    SourceMatrix x{};
    ExistingArguments existing{};  // without places
    PlaceArguments places{};
    FactorArguments factors{};
    RouteArguments route{};
    RowTarget to{};
    bool clears = false;  // writes zeros to rows that do not exist
    RankShifts ranks{};   // of x
    AnnounceArguments announce{};
    MeetArguments meet{};
};

/// Sizes and strides of values are in bytes. Features of the grid are bytes too.
struct CopyRowsArguments {
    RowGrid grid{};
    const u8* from = nullptr;
    i64 group_stride = 0;
    i64 row_stride = 0;
    ExistingArguments existing{};
    PlaceArguments places{};
    RouteArguments route{};
    RowTarget to{};
    ScaleMatrix scales{};      // of `from`
    int scale_count = 0;       // per row
    bool vectors = false;      // 16 bytes at a time
    bool wide_scales = false;  // 4 bytes each, otherwise 1
    RankShifts ranks{};        // of `from` and its scales
    AnnounceArguments announce{};
    MeetArguments meet{};
};

struct ActivateArguments {
    RowGrid grid{};  // features of h
    SourceMatrix gate_up{};
    int up = 0;  // the distance from a gate to its up
    formats::GatedRule rule{};
    ExistingArguments existing{};
    FactorArguments factors{};
    RowTarget to{};
    bool clears = false;
};

struct CombineArguments {
    RowGrid grid{};
    SourceMatrix y{};
    PlaceArguments places{};
    ExistingArguments existing{};
    FactorArguments weights{};
    SourceMatrix addend{};  // null: 0
    Number addend_format = Number::bf16;
    RowTarget out{};
    bool skips = false;      // tokens without a row are not written
    RankShifts y_ranks{};    // rows of y are rank * room + row
    RankShifts out_ranks{};  // rows of the grid are rank * room + row
    MeetArguments meet{};
};

/// A unit and the matrices of its rows (unit_numbers.h).
struct UnitArguments {
    SourceMatrix gate_up{};
    SourceMatrix gradient{};  // of h
    int up = 0;               // the distance from a gate to its up. 1: they alternate. 0: there are no gates
    int features = 0;         // of h
    formats::Unit unit = formats::Unit::swiglu;
    formats::GatedRule rule{};
    bool vectors = false;  // 16 bytes at a time
};

struct UnitGradientArguments {
    RowGrid grid{};  // features of h
    UnitArguments of{};
    ExistingArguments existing{};
    RowTarget to{};  // as gate_up
};

struct WeightGradientArguments {
    UnitArguments of{};
    PlaceArguments places{};
    int tokens = 0;
    int choices = 0;
    float* out = nullptr;
    i64 out_token_stride = 0;
    i64 out_choice_stride = 0;
};

}  // namespace tilewright::hopper
