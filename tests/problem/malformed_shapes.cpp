// Missing operands, ranks, and sizes that a, b, c and d disagree on.
#include "problem/malformed.h"

#include <cstdint>
#include <utility>

namespace tilewright::test {
namespace {

constexpr std::int64_t large = std::int64_t{1} << 40;

std::vector<Malformed> missing() {
    return {
        {.mistake = "a missing",
         .spec = {.recipe = "bf16:bf16"},
         .make = [](Problem& p) { p.a = {}; },
         .messages = {"a.values: got nothing; expected [64, 512] for dense nt."}},
        {.mistake = "b missing",
         .spec = {.recipe = "bf16:bf16"},
         .make = [](Problem& p) { p.b = {}; },
         .messages = {"b.values: got nothing; expected [256, 512] for dense nt."}},
        {.mistake = "d missing",
         .spec = {},
         .make = [](Problem& p) { p.d = {}; },
         .messages = {"d: got nothing; expected [64, 256] for dense."}},
        {.mistake = "everything missing",
         .spec = {},
         .make = [](Problem& p) { p = {}; },
         .messages = {"a.values: got nothing; expected [m, k] for dense nt.",
                      "b.values: got nothing; expected [n, k] for dense nt.",
                      "d: got nothing; expected [m, n] for dense."}},
        {.mistake = "b and d missing",
         .spec = {.layout = Layout::tn, .recipe = "bf16:bf16"},
         .make = [](Problem& p) { p.b = {}, p.d = {}; },
         .messages = {"b.values: got nothing; expected [512, n] for dense tn.",
                      "d: got nothing; expected [64, n] for dense."}},
        {.mistake = "d of k_grouped missing",
         .spec = {.grouping = Grouping::k_grouped},
         .make = [](Problem& p) { p.d = {}; },
         .messages = {"d: got nothing; expected [g, 64, 256] for k_grouped."}},
    };
}

std::vector<Malformed> ranks_and_signs() {
    return {
        {.mistake = "a of rank 1",
         .spec = {.recipe = "bf16:bf16"},
         .make = [](Problem& p) { p.a.values = placed(Format::bf16, {512}); },
         .messages = {"a.values: got [512]; expected [64, 512] for dense nt."}},
        {.mistake = "a of rank 3 in a dense call",
         .spec = {.recipe = "bf16:bf16"},
         .make =
             [](Problem& p) {
                 p.a.values = placed(Format::bf16, {1, 64, 512});
             },
         .messages = {"a.values: got [1, 64, 512]; expected [64, 512] for dense nt. b is one matrix: reshape a to two "
                      "dimensions before you quantize it."}},
        {.mistake = "b without its group dimension",
         .spec = {.grouping = Grouping::m_grouped_offsets, .recipe = "bf16:bf16"},
         .make =
             [](Problem& p) {
                 p.b.values = placed(Format::bf16, {256, 512});
             },
         .messages = {"b.values: got [256, 512]; expected [g, 256, 512] for m_grouped_offsets nt."}},
        {.mistake = "rank 4",
         .spec = {.grouping = Grouping::batched, .recipe = "bf16:bf16"},
         .make =
             [](Problem& p) {
                 p.a.values.shape = {1, 4, 64, 512};
                 p.a.values.strides = {1, 1, 512, 1};
             },
         .messages = {"a.values: got [1, 4, 64, ...]; expected at most 3 dimensions."}},
        {.mistake = "negative size",
         .spec = {.recipe = "bf16:bf16"},
         .make = [](Problem& p) { p.a.values.shape[0] = -64; },
         .messages = {"a.values: got [-64, 512]; expected sizes of 0 or more."}},
        {.mistake = "negative size of d",
         .spec = {},
         .make = [](Problem& p) { p.d.shape[1] = -1; },
         .messages = {"d: got [64, -1]; expected sizes of 0 or more."}},
        {.mistake = "d of rank 1",
         .spec = {},
         .make = [](Problem& p) { p.d = placed(Format::bf16, {64 * 256}); },
         .messages = {"d: got [16384]; expected [64, 256] for dense."}},
        {.mistake = "d of rank 3 where rows of all groups follow one another",
         .spec = {.grouping = Grouping::m_grouped_indices},
         .make =
             [](Problem& p) {
                 p.d = placed(Format::bf16, {4, 16, 256});
             },
         .messages = {"d: got [4, 16, 256]; expected [64, 256] for m_grouped_indices."}},
    };
}

/// Operands of another grouping, or in each other's place.
std::vector<Malformed> operands_of_other_groupings() {
    return {
        {.mistake = "groups of equal size in a dense call",
         .spec = {.recipe = "bf16:bf16"},
         .make =
             [](Problem& p) {
                 p.a.values = placed(Format::bf16, {4, 64, 512});
                 p.b.values = placed(Format::bf16, {4, 256, 512});
             },
         .messages = {"a.values: got [4, 64, 512]; expected [64, k] for dense nt. For groups of equal size use batched "
                      "(batched_gemm in Python).",
                      "b.values: got [4, 256, 512]; expected [256, k] for dense nt. For groups of equal size use "
                      "batched (batched_gemm in Python)."}},
        {.mistake = "experts in a dense call",
         .spec = {.recipe = "bf16:bf16"},
         .make =
             [](Problem& p) {
                 p.b.values = placed(Format::bf16, {4, 256, 512});
             },
         .messages = {"b.values: got [4, 256, 512]; expected [256, 512] for dense nt. For rows of several groups use "
                      "m_grouped_offsets (grouped_gemm(offsets=) in Python)."}},
        {.mistake = "rows of groups in a batched call",
         .spec = {.grouping = Grouping::batched, .recipe = "bf16:bf16"},
         .make =
             [](Problem& p) {
                 p.a.values = placed(Format::bf16, {64, 512});
             },
         .messages = {"a.values: got [64, 512]; expected [4, 64, 512] for batched nt. For rows of several groups use "
                      "m_grouped_offsets (grouped_gemm(offsets=) in Python)."}},
        {.mistake = "a and b of groups swapped",
         .spec = {.grouping = Grouping::m_grouped_offsets, .recipe = "bf16:bf16"},
         .make = [](Problem& p) { std::swap(p.a, p.b); },
         .messages = {"a.values: got [4, 256, 512]; expected [64, k] for m_grouped_offsets nt. Did you swap a and b? a "
                      "holds the rows of all groups, b one matrix per group.",
                      "b.values: got [64, 512]; expected [g, 256, k] for m_grouped_offsets nt. Did you swap a and b? a "
                      "holds the rows of all groups, b one matrix per group."}},
    };
}

std::vector<Malformed> disagreements() {
    return {
        {.mistake = "k of b",
         .spec = {.recipe = "bf16:bf16"},
         .make =
             [](Problem& p) {
                 p.b.values = placed(Format::bf16, {256, 511});
             },
         .messages = {"b.values: got [256, 511]; expected [256, 512] for dense nt. k is 512 in a.values."}},
        {.mistake = "b transposed",
         .spec = {.recipe = "bf16:bf16"},
         .make =
             [](Problem& p) {
                 p.b.values = placed(Format::bf16, {512, 256});
             },
         .messages = {"b.values: got [512, 256]; expected [256, 512] for dense nt. n is 256 in d and k is 512 in "
                      "a.values. Pass the transposed view, or layout nn."}},
        {.mistake = "b not transposed in layout nn",
         .spec = {.layout = Layout::nn, .recipe = "bf16:bf16"},
         .make =
             [](Problem& p) {
                 p.b.values = placed(Format::bf16, {256, 512});
             },
         .messages = {"b.values: got [256, 512]; expected [512, 256] for dense nn. k is 512 in a.values and n is 256 "
                      "in d. Pass the transposed view, or layout nt."}},
        {.mistake = "rows of d",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.d = placed(Format::bf16, {65, 256});
             },
         .messages = {"d: got [65, 256]; expected [64, 256] for dense. m is 64 in a.values."}},
        {.mistake = "rows and columns of d",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.d = placed(Format::bf16, {65, 257});
             },
         .messages = {"d: got [65, 257]; expected [64, 256] for dense. m is 64 in a.values and n is 256 in b.values."}},
        {.mistake = "d transposed",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.d = placed(Format::bf16, {256, 64});
             },
         .messages = {"d: got [256, 64]; expected [64, 256] for dense. m is 64 in a.values and n is 256 in b.values. "
                      "Pass the transposed view."}},
        {.mistake = "c of another shape",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.c = placed(Format::bf16, {1, 256});
             },
         .messages = {"c: got [1, 256]; expected [64, 256] for dense. m is 64 in a.values."}},
        {.mistake = "groups of b",
         .spec = {.grouping = Grouping::batched, .recipe = "bf16:bf16"},
         .make =
             [](Problem& p) {
                 p.b.values = placed(Format::bf16, {3, 256, 512});
             },
         .messages = {"b.values: got [3, 256, 512]; expected [4, 256, 512] for batched nt. The number of groups is 4 "
                      "in a.values."}},
        {.mistake = "groups of d",
         .spec = {.grouping = Grouping::m_grouped_masked},
         .make =
             [](Problem& p) {
                 p.d = placed(Format::bf16, {5, 64, 256});
             },
         .messages = {"d: got [5, 64, 256]; expected [4, 64, 256] for m_grouped_masked. The number of groups is 4 in "
                      "a.values."}},
        {.mistake = "k of k_grouped operands",
         .spec = {.grouping = Grouping::k_grouped, .layout = Layout::tn, .recipe = "bf16:bf16"},
         .make =
             [](Problem& p) {
                 p.b.values = placed(Format::bf16, {640, 256});
             },
         .messages = {"b.values: got [640, 256]; expected [512, 256] for k_grouped tn. k is 512 in a.values."}},
        {.mistake = "a product beyond 2^63",
         .spec = {.recipe = "bf16:bf16"},
         .make =
             [](Problem& p) {
                 p.a.values.shape = {large, 262144};
                 p.b.values.shape = {1024, 262144};
                 p.a.values.strides = p.b.values.strides = {0, 0};
                 p.d.shape = {large, 1024};
                 p.d.strides = {1024, 1};
             },
         .messages = {"sizes: got m 1099511627776, n 1024, k 262144; expected a product below 2^63."}},
    };
}

}  // namespace

std::vector<Malformed> malformed_shapes() {
    std::vector<Malformed> all = missing();
    for (auto& rows : {ranks_and_signs(), operands_of_other_groupings(), disagreements()}) {
        all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
}

}  // namespace tilewright::test
