// Strides: their number, sign and span, how e2m1 is packed, and outputs with two elements at one address.
#include "problem/malformed.h"

#include <cstdint>

namespace tilewright::test {
namespace {

constexpr std::int64_t large = std::int64_t{1} << 40;

std::vector<Malformed> any_tensor() {
    return {
        {.mistake = "no strides",
         .spec = {},
         .make = [](Problem& p) { p.a.values.strides = {}; },
         .messages = {"a.values.strides: got []; expected one stride per dimension of [64, 512]."}},
        {.mistake = "a stride too many",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.d.strides = {1, 256, 1};
             },
         .messages = {"d.strides: got [1, 256, 1]; expected one stride per dimension of [64, 256]."}},
        {.mistake = "reversed rows",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.b.values.strides = {-512, 1};
             },
         .messages = {"b.values.strides: got [-512, 1]; expected strides of 0 or more. Copy the reversed view."}},
        {.mistake = "reversed scales",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.a.scales.strides = {4, -1};
             },
         .messages = {"a.scales.strides: got [4, -1]; expected strides of 0 or more. Copy the reversed view."}},
        {.mistake = "sizes whose product is beyond 64 bits",
         .spec = {.recipe = "bf16:bf16"},
         .make =
             [](Problem& p) {
                 p.b.values.shape = {large, 512};
                 p.b.values.strides = {large, 1};
             },
         .messages = {"b.values.strides: got [1099511627776, 1] with sizes [1099511627776, 512]; expected a span below "
                      "2^60 bytes.",
                      "d: got [64, 256]; expected [64, 1099511627776] for dense. n is 1099511627776 in b.values."}},
        {.mistake = "a broadcast with more elements than can be counted",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.groups.grouping = Grouping::k_grouped;
                 p.groups.sizes = placed(Format::i64, {2});
                 p.groups.sizes.shape = {std::int64_t{1} << 62};
                 p.groups.sizes.strides = {0};
                 p.d.shape = {std::int64_t{1} << 62, 64, 256};
                 p.d.strides = {16384, 256, 1};
             },
         .messages =
             {"d.strides: got [16384, 256, 1] with sizes [4611686018427387904, 64, 256]; expected a span below 2^60 "
              "bytes.",
              "groups.sizes.strides: got [0] with sizes [4611686018427387904]; expected a span below 2^60 bytes.",
              "sizes: got g 4611686018427387904, m 64, n 256, k 512; expected a product below 2^63."}},
    };
}

std::vector<Malformed> packing() {
    return {
        {.mistake = "e2m1 with odd k",
         .spec = {.recipe = "mxfp8:mxfp4", .k = 511},
         .make = [](Problem&) {},
         .messages = {"b.values: got [256, 511]; expected an even size in the packed dimension of e2m1 (stride 1). Pad "
                      "it with a zero."}},
        {.mistake = "e2m1 packed along odd n",
         .spec = {.layout = Layout::nn, .recipe = "mxfp8:mxfp4", .n = 255},
         .make = [](Problem&) {},
         .messages = {"b.values: got [512, 255]; expected an even size in the packed dimension of e2m1 (stride 1). Pad "
                      "it with a zero."}},
        {.mistake = "e2m1 without a dimension of stride 1",
         .spec = {.recipe = "mxfp4:mxfp4"},
         .make =
             [](Problem& p) {
                 p.a.values.strides = {1024, 2};
             },
         .messages = {"a.values.strides: got [1024, 2]; expected a stride of 1 in the packed dimension of e2m1. e2m1 "
                      "stores two elements per byte."}},
        {.mistake = "e2m1 rows that start in the middle of a byte",
         .spec = {.recipe = "mxfp4:mxfp4"},
         .make =
             [](Problem& p) {
                 p.a.values.strides = {513, 1};
             },
         .messages = {"a.values.strides: got [513, 1]; expected even strides in the other dimensions of e2m1. Each row "
                      "starts on a whole byte."}},
        {.mistake = "e2m1 strides counted in bytes",
         .spec = {.grouping = Grouping::batched, .recipe = "bf16:nvfp4", .n = 3, .k = 32},
         .make =
             [](Problem& p) {
                 p.b.values.strides = {45, 15, 1};
             },
         .messages = {"b.values.strides: got [45, 15, 1]; expected even strides in the other dimensions of e2m1. Each "
                      "row starts on a whole byte."}},
    };
}

std::vector<Malformed> outputs() {
    return {
        {.mistake = "broadcast output",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.d.strides = {0, 1};
             },
         .messages = {"d.strides: got [0, 1]; expected a separate address for each element of [64, 256]."}},
        {.mistake = "output rows that overlap",
         .spec = {},
         .make =
             [](Problem& p) {
                 p.d.strides = {255, 1};
             },
         .messages = {"d.strides: got [255, 1]; expected a separate address for each element of [64, 256]."}},
        {.mistake = "output strides that sometimes give two elements one address",
         .spec = {.m = 4, .n = 3},
         .make =
             [](Problem& p) {
                 p.d.strides = {2, 3};
             },  // 3 rows on is 2 columns on
         .messages = {"d.strides: got [2, 3]; expected a separate address for each element of [4, 3]."}},
        {.mistake = "output groups that overlap",
         .spec = {.grouping = Grouping::k_grouped},
         .make =
             [](Problem& p) {
                 p.d.strides = {16383, 256, 1};
             },
         .messages = {"d.strides: got [16383, 256, 1]; expected a separate address for each element of [4, 64, 256]."}},
    };
}

}  // namespace

std::vector<Malformed> malformed_strides() {
    std::vector<Malformed> all = any_tensor();
    for (auto& rows : {packing(), outputs()}) all.insert(all.end(), rows.begin(), rows.end());
    return all;
}

}  // namespace tilewright::test
