// Present and missing group sizes, their length and format, the alignment. Their contents are clamped, never judged.
#include "problem/malformed.h"

namespace tilewright::test {

std::vector<Malformed> malformed_groups() {
    return {
        {.mistake = "sizes in a dense call",
         .spec = {},
         .make = [](Problem& p) { p.groups.sizes = placed(Format::i32, {4}); },
         .messages = {"groups.sizes: [4] given, nothing expected for dense"}},
        {.mistake = "sizes in a batched call",
         .spec = {.grouping = Grouping::batched},
         .make = [](Problem& p) { p.groups.sizes = placed(Format::f32, {4}); },
         .messages = {"groups.sizes: [4] given, nothing expected for batched"}},
        {.mistake = "no sizes for offsets",
         .spec = {.grouping = Grouping::m_grouped_offsets},
         .make = [](Problem& p) { p.groups.sizes = {}; },
         .messages = {"groups.sizes: nothing given, [4] expected for m_grouped_offsets"}},
        {.mistake = "no sizes for indices",
         .spec = {.grouping = Grouping::m_grouped_indices},
         .make = [](Problem& p) { p.groups.sizes = {}; },
         .messages = {"groups.sizes: nothing given, [64] expected for m_grouped_indices"}},
        {.mistake = "one index for each group instead of each row",
         .spec = {.grouping = Grouping::m_grouped_indices},
         .make = [](Problem& p) { p.groups.sizes = placed(Format::i32, {4}); },
         .messages = {"groups.sizes: [4] given, [64] expected for m_grouped_indices; m is 64 in a.values"}},
        {.mistake = "an offset too many",
         .spec = {.grouping = Grouping::m_grouped_aligned_offsets},
         .make = [](Problem& p) { p.groups.sizes = placed(Format::i32, {5}); },
         .messages = {"groups.sizes: [5] given, [4] expected for m_grouped_aligned_offsets; the number of groups is 4 "
                      "in b.values; one for each group, without a first 0"}},
        {.mistake = "sizes of rank 2",
         .spec = {.grouping = Grouping::m_grouped_masked},
         .make =
             [](Problem& p) {
                 p.groups.sizes = placed(Format::i32, {4, 1});
             },
         .messages = {"groups.sizes: [4, 1] given, [4] expected for m_grouped_masked"}},
        {.mistake = "offsets of k for another number of groups",
         .spec = {.grouping = Grouping::k_grouped},
         .make = [](Problem& p) { p.groups.sizes = placed(Format::i64, {3}); },
         .messages = {"groups.sizes: [3] given, [4] expected for k_grouped; the number of groups is 4 in d"}},
        {.mistake = "sizes as f32",
         .spec = {.grouping = Grouping::m_grouped_masked},
         .make = [](Problem& p) { p.groups.sizes.format = Format::f32; },
         .messages = {"groups.sizes: f32 given, i32 or i64 expected"}},
        {.mistake = "sizes with a negative stride",
         .spec = {.grouping = Grouping::m_grouped_offsets},
         .make = [](Problem& p) { p.groups.sizes.strides = {-1}; },
         .messages = {"groups.sizes.strides: [-1] given, strides of zero or more expected; copy the reversed view"}},
        {.mistake = "alignment 0",
         .spec = {.grouping = Grouping::m_grouped_aligned_offsets},
         .make = [](Problem& p) { p.groups.alignment = 0; },
         .messages = {"groups.alignment: 0 given, 1 or more expected"}},
        {.mistake = "groups of k that begin within a block of scales",
         .spec = {.grouping = Grouping::k_grouped_aligned_offsets, .recipe = "row:mxfp4"},
         .make = [](Problem& p) { p.groups.alignment = 48; },
         .messages = {"groups.alignment: 48 given, a multiple of 32 expected for 1x32 scaling of b; each group begins "
                      "with a block of its own"}},
        {.mistake = "flat groups of k with gaps between rows",
         .spec = {.grouping = Grouping::k_grouped_flat},
         .make =
             [](Problem& p) {
                 p.b.values.strides = {496, 1};
             },
         .messages = {"b.values.strides: [496, 1] given, [512, 1] expected for k_grouped_flat; groups follow one "
                      "another without gaps; copy it, or give ends with k_grouped"}},
        {.mistake = "index alignment 0",
         .spec = {.grouping = Grouping::m_grouped_indices},
         .make = [](Problem& p) { p.groups.index_alignment = 0; },
         .messages = {"groups.index_alignment: 0 given, 1 or more expected"}},
        {.mistake = "negative alignment",
         .spec = {.grouping = Grouping::m_grouped_aligned_offsets},
         .make = [](Problem& p) { p.groups.alignment = -128; },
         .messages = {"groups.alignment: -128 given, 1 or more expected"}},
    };
}

}  // namespace tilewright::test
