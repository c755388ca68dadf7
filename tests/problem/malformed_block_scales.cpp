// Block scales of the wrong shape, and what the caller probably meant.
#include "problem/malformed.h"

namespace tilewright::test {
namespace {

std::vector<Malformed> dense_blocks() {
    return {
        {.mistake = "128x128 scales transposed",
         .spec = {.n = 2048, .k = 7168},
         .make =
             [](Problem& p) {
                 p.b.scales = placed(Format::f32, {56, 16});
             },
         .messages = {"b.scales: got [56, 16]; expected [16, 56] for 128x128 scales of b [2048, 7168]. Pass the "
                      "transposed view."}},
        {.mistake = "1x128 scales transposed",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.a.scales = placed(Format::f32, {4, 64});
             },
         .messages =
             {"a.scales: got [4, 64]; expected [64, 4] for 1x128 scales of a [64, 512]. Pass the transposed view."}},
        {.mistake = "1x128 scales of b where 128x128 is said",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.b.scales = placed(Format::f32, {256, 4});
             },
         .messages = {"b.scales: got [256, 4]; expected [2, 4] for 128x128 scales of b [256, 512]. [256, 4] is the "
                      "shape of 1x128 scales."}},
        {.mistake = "row scales of a where 1x128 is said",
         .spec = {},
         .make = [](Problem& p) { p.a.scales = placed(Format::f32, {64}); },
         .messages = {"a.scales: got [64]; expected [64, 4] for 1x128 scales of a [64, 512]. [64] is the shape of row "
                      "scales."}},
        {.mistake = "one column for a k tail missing",
         .spec = {.k = 513},
         .make =
             [](Problem& p) {
                 p.a.scales = placed(Format::f32, {64, 4});
             },
         .messages = {"a.scales: got [64, 4]; expected [64, 5] for 1x128 scales of a [64, 513]."}},
        {.mistake = "one row for an n tail missing",
         .spec = {.n = 257},
         .make =
             [](Problem& p) {
                 p.b.scales = placed(Format::f32, {2, 4});
             },
         .messages = {"b.scales: got [2, 4]; expected [3, 4] for 128x128 scales of b [257, 512]."}},
        {.mistake = "a column too many",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.a.scales = placed(Format::f32, {64, 5});
             },
         .messages = {"a.scales: got [64, 5]; expected [64, 4] for 1x128 scales of a [64, 512]."}},
        {.mistake = "1x32 scales as if k were counted in bytes of e2m1",
         .spec = {.recipe = "mxfp8:mxfp4"},
         .make =
             [](Problem& p) {
                 p.b.scales = placed(Format::ue8m0, {256, 8});
             },
         .messages = {"b.scales: got [256, 8]; expected [256, 16] for 1x32 scales of b [256, 512]."}},
        {.mistake = "1x16 scales transposed",
         .spec = {.recipe = "bf16:nvfp4"},
         .make =
             [](Problem& p) {
                 p.b.scales = placed(Format::ue4m3, {32, 256});
             },
         .messages = {"b.scales: got [32, 256]; expected [256, 32] for 1x16 scales of b [256, 512]. Pass the "
                      "transposed view."}},
        {.mistake = "scales follow the layout of the values",
         .spec = {.layout = Layout::nn},
         .make =
             [](Problem& p) {
                 p.b.scales = placed(Format::f32, {4, 2});
             },
         .messages =
             {"b.scales: got [4, 2]; expected [2, 4] for 128x128 scales of b [256, 512]. Pass the transposed view."}},
        {.mistake = "scales of one sound side with values that do not fit",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.b.values = placed(Format::e4m3, {256, 640});
                 p.b.scales = placed(Format::f32, {5, 2});
             },
         .messages =
             {"b.values: got [256, 640]; expected [256, 512] for dense nt. k is 512 in a.values.",
              "b.scales: got [5, 2]; expected [2, 5] for 128x128 scales of b [256, 640]. Pass the transposed view."}},
    };
}

std::vector<Malformed> grouped_blocks() {
    return {
        {.mistake = "block scales without groups",
         .spec = {.grouping = Grouping::m_grouped_masked},
         .make =
             [](Problem& p) {
                 p.b.scales = placed(Format::f32, {2, 4});
             },
         .messages = {"b.scales: got [2, 4]; expected [4, 2, 4] for 128x128 scales of b [4, 256, 512]."}},
        {.mistake = "block scales of each group transposed",
         .spec = {.grouping = Grouping::m_grouped_offsets},
         .make =
             [](Problem& p) {
                 p.b.scales = placed(Format::f32, {4, 4, 2});
             },
         .messages = {"b.scales: got [4, 4, 2]; expected [4, 2, 4] for 128x128 scales of b [4, 256, 512]. Pass the "
                      "transposed view."}},
        {.mistake = "block scales with groups for an operand without",
         .spec = {.grouping = Grouping::m_grouped_offsets},
         .make =
             [](Problem& p) {
                 p.a.scales = placed(Format::f32, {4, 16, 4});
             },
         .messages = {"a.scales: got [4, 16, 4]; expected [64, 4] for 1x128 scales of a [64, 512]."}},
        {.mistake = "a single group in front of an operand without",
         .spec = {.grouping = Grouping::m_grouped_offsets},
         .make =
             [](Problem& p) {
                 p.a.scales = placed(Format::f32, {1, 64, 4});
             },
         .messages =
             {"a.scales: got [1, 64, 4]; expected [64, 4] for 1x128 scales of a [64, 512]. Pass a view of rank 2."}},
        {.mistake = "too few columns for k_grouped",
         .spec = {.grouping = Grouping::k_grouped},
         .make =
             [](Problem& p) {
                 p.a.scales = placed(Format::f32, {64, 3});
             },
         .messages = {"a.scales: got [64, 3]; expected [64, 4] or more columns for 1x128 scales of a [64, 512]. Blocks "
                      "start again in each group: pass one column per block of each group. More columns are allowed."}},
        {.mistake = "k_grouped columns in front",
         .spec = {.grouping = Grouping::k_grouped},
         .make =
             [](Problem& p) {
                 p.a.scales = placed(Format::f32, {7, 64});
             },
         .messages = {"a.scales: got [7, 64]; expected [64, 4] or more columns for 1x128 scales of a [64, 512]. Pass "
                      "the transposed view."}},
        {.mistake = "more rows than 128x128 blocks in k_grouped",
         .spec = {.grouping = Grouping::k_grouped},
         .make =
             [](Problem& p) {
                 p.b.scales = placed(Format::f32, {4, 2, 4});
             },
         .messages =
             {"b.scales: got [4, 2, 4]; expected [2, 4] or more columns for 128x128 scales of b [256, 512]. Blocks "
              "start again in each group: pass one column per block of each group. More columns are allowed."}},
    };
}

}  // namespace

std::vector<Malformed> malformed_block_scales() {
    std::vector<Malformed> all = dense_blocks();
    for (Malformed& row : grouped_blocks()) all.push_back(std::move(row));
    return all;
}

}  // namespace tilewright::test
