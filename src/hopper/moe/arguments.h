// The parameters of the kernels around the products of a layer of experts. Strides count elements.
#pragma once

#include "formats/gated_unit.h"
#include "hopper/quantize/arguments.h"
#include "hopper/quantize/quantizer.h"

namespace tilewright::hopper {

/// The rows that a kernel works on: tokens, or rows of [groups, room, features]. Blocks take parts of rows, one after
/// another.
struct RowGrid {
    int rows = 0;
    int room = 1;  // rows of a group
    int features = 0;
    int parts = 1;          // of a row
    int part_features = 0;  // of a part: one lane has 16, or 8 in `combine`
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
    int given = 0;       // choices of a token that `ids` has
    int choices = 0;     // with those of shared experts, which are the last local experts
    int experts = 0;     // local
    bool keeps = false;  // shared memory has room for a word per choice
    // Each may be null.
    int* rows = nullptr;
    int* sources = nullptr;
    int* ends = nullptr;
    float* row_weights = nullptr;
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
};

struct WeightGradientArguments {
    SourceMatrix gate_up{};
    SourceMatrix gradient{};  // of h
    int up = 0;               // the distance from a gate to its up. 1: they alternate. 0: there are no gates
    int features = 0;         // of h
    formats::Unit unit = formats::Unit::swiglu;
    formats::GatedRule rule{};
    PlaceArguments places{};
    int tokens = 0;
    int choices = 0;
    bool vectors = false;  // 16 bytes at a time
    float* out = nullptr;
    i64 out_token_stride = 0;
    i64 out_choice_stride = 0;
};

}  // namespace tilewright::hopper
