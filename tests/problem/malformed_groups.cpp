// Group sizes that are there or not, their length and format, the alignment. Their contents are clamped, never judged.
#include "problem/malformed.h"

namespace tilewright::test {

std::vector<Malformed> malformed_groups() {
    return {
        {.mistake = "sizes in a dense call",
         .spec = {},
         .make = [](Problem& p) { p.groups.sizes = placed(Format::i32, {4}); },
         .messages = {"groups.sizes: got [4]; expected nothing for dense."}},
        {.mistake = "sizes in a batched call",
         .spec = {.grouping = Grouping::batched},
         .make = [](Problem& p) { p.groups.sizes = placed(Format::f32, {4}); },
         .messages = {"groups.sizes: got [4]; expected nothing for batched."}},
        {.mistake = "no sizes for offsets",
         .spec = {.grouping = Grouping::m_grouped_offsets},
         .make = [](Problem& p) { p.groups.sizes = {}; },
         .messages = {"groups.sizes: got nothing; expected [4] for m_grouped_offsets."}},
        {.mistake = "no sizes for indices",
         .spec = {.grouping = Grouping::m_grouped_indices},
         .make = [](Problem& p) { p.groups.sizes = {}; },
         .messages = {"groups.sizes: got nothing; expected [64] for m_grouped_indices."}},
        {.mistake = "one index for each group instead of each row",
         .spec = {.grouping = Grouping::m_grouped_indices},
         .make = [](Problem& p) { p.groups.sizes = placed(Format::i32, {4}); },
         .messages = {"groups.sizes: got [4]; expected [64] for m_grouped_indices. m is 64 in a.values."}},
        {.mistake = "an offset too many",
         .spec = {.grouping = Grouping::m_grouped_aligned_offsets},
         .make = [](Problem& p) { p.groups.sizes = placed(Format::i32, {5}); },
         .messages = {"groups.sizes: got [5]; expected [4] for m_grouped_aligned_offsets. The number of groups is 4 in "
                      "b.values. Pass one per group, without a leading 0."}},
        {.mistake = "sizes of rank 2",
         .spec = {.grouping = Grouping::m_grouped_masked},
         .make =
             [](Problem& p) {
                 p.groups.sizes = placed(Format::i32, {4, 1});
             },
         .messages = {"groups.sizes: got [4, 1]; expected [4] for m_grouped_masked."}},
        {.mistake = "offsets of k for another number of groups",
         .spec = {.grouping = Grouping::k_grouped},
         .make = [](Problem& p) { p.groups.sizes = placed(Format::i64, {3}); },
         .messages = {"groups.sizes: got [3]; expected [4] for k_grouped. The number of groups is 4 in d."}},
        {.mistake = "sizes as f32",
         .spec = {.grouping = Grouping::m_grouped_masked},
         .make = [](Problem& p) { p.groups.sizes.format = Format::f32; },
         .messages = {"groups.sizes: got f32; expected i32 or i64."}},
        {.mistake = "sizes with a negative stride",
         .spec = {.grouping = Grouping::m_grouped_offsets},
         .make = [](Problem& p) { p.groups.sizes.strides = {-1}; },
         .messages = {"groups.sizes.strides: got [-1]; expected strides of 0 or more. Copy the reversed view."}},
        {.mistake = "alignment 0",
         .spec = {.grouping = Grouping::m_grouped_aligned_offsets},
         .make = [](Problem& p) { p.groups.alignment = 0; },
         .messages = {"groups.alignment: got 0; expected 1 or more."}},
        {.mistake = "groups of k that begin within a block of scales",
         .spec = {.grouping = Grouping::k_grouped_aligned_offsets, .recipe = "row:mxfp4"},
         .make = [](Problem& p) { p.groups.alignment = 48; },
         .messages = {"groups.alignment: got 48; expected a multiple of 32 for 1x32 scales of b. Each group begins "
                      "with its own scale block."}},
        {.mistake = "flat groups of k with gaps between rows",
         .spec = {.grouping = Grouping::k_grouped_flat},
         .make =
             [](Problem& p) {
                 p.b.values.strides = {496, 1};
             },
         .messages = {"b.values.strides: got [496, 1]; expected [512, 1] for k_grouped_flat. Groups of k_grouped_flat "
                      "have no gaps: copy it, or use k_grouped with the end of each group."}},
        {.mistake = "index alignment 0",
         .spec = {.grouping = Grouping::m_grouped_indices},
         .make = [](Problem& p) { p.groups.index_alignment = 0; },
         .messages = {"groups.index_alignment: got 0; expected 1 or more."}},
        {.mistake = "negative alignment",
         .spec = {.grouping = Grouping::m_grouped_aligned_offsets},
         .make = [](Problem& p) { p.groups.alignment = -128; },
         .messages = {"groups.alignment: got -128; expected 1 or more."}},
    };
}

}  // namespace tilewright::test
