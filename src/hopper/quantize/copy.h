// Stores one operand's quantized values, in rows or through shared memory in columns.
#pragma once

#include "hopper/quantize/encode.h"

namespace tilewright::hopper {

/// Stores the existing ones of 16 values one by one.
TILEWRIGHT_DEVICE void store_each(u8* to, i64 stride, const IntQuad& codes, int count) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        if (i < count) store_global(to + i * stride, u8(u32(codes.values[i / 4]) >> i % 4 * 8));
    }
}

template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void store_rows(const CopyArguments& to, const TokenTile& tile, int features, const Codes& codes) {
    const int feature = tile.feature + TokenTile::lane_feature();
    u8* place = to.codes + tile.group * to.group_stride + i64(tile.token + TokenTile::lane_token()) * to.token_stride +
                i64(feature) * to.feature_stride;
#pragma unroll
    for (int j = 0; j < lane_tokens; ++j, place += to.token_stride) {
        if (TokenTile::lane_token() + j >= tile.tokens || feature >= features) continue;
        const IntQuad quad{{int(codes[j][0]), int(codes[j][1]), int(codes[j][2]), int(codes[j][3])}};
        if constexpr (q.vectors) {
            store_global(reinterpret_cast<IntQuad*>(place), quad);
        } else {
            store_each(place, to.feature_stride, quad, features - feature);
        }
    }
}

/// Transposes four words of four features to four words of four tokens each.
TILEWRIGHT_DEVICE void transpose_bytes(const u32 (&tokens)[4], u32 (&features)[4]) {
    const u32 low01 = permute_bytes(tokens[0], tokens[1], 0x5140), low23 = permute_bytes(tokens[2], tokens[3], 0x5140);
    const u32 high01 = permute_bytes(tokens[0], tokens[1], 0x7362),
              high23 = permute_bytes(tokens[2], tokens[3], 0x7362);
    features[0] = permute_bytes(low01, low23, 0x5410);
    features[1] = permute_bytes(low01, low23, 0x7632);
    features[2] = permute_bytes(high01, high23, 0x5410);
    features[3] = permute_bytes(high01, high23, 0x7632);
}

/// The lane that has a feature exchanges the 16-byte chunks of the feature's 128 bytes in shared memory. Neither the
/// words nor the chunks that a warp accesses then share a bank.
TILEWRIGHT_DEVICE int swizzle(int feature) { return feature / lane_features * 4; }

/// Stores through shared memory. Together.
template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void store_columns(const CopyArguments& to, const TokenTile& tile, int features, const Codes& codes,
                                     QuantizeShared& shared) {
    const int own_feature = TokenTile::lane_feature(), word = TokenTile::lane_token() / 4;
#pragma unroll
    for (int quad = 0; quad < lane_features / 4; ++quad) {
        u32 tokens[4], of_features[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) tokens[j] = codes[j][quad];
        transpose_bytes(tokens, of_features);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            store_shared(shared.codes[own_feature + quad * 4 + i][word ^ swizzle(own_feature)], of_features[i]);
        }
    }
    sync_block();
    constexpr int chunks = quantize_block / 16, step = quantize_threads / chunks;
    const int room = int(min(to.columns - tile.column, i64(quantize_block)));
    const u32 thread = u32(thread_index());
    const int chunk = int(thread % chunks) * 16, first = int(thread / chunks);
    u8* place = to.codes + tile.group * to.group_stride + i64(tile.feature + first) * to.feature_stride +
                i64(tile.column + chunk) * to.token_stride;
#pragma unroll
    for (int i = 0; i < quantize_block / step; ++i, place += step * to.feature_stride) {
        const int feature = i * step + first;
        if (tile.feature + feature >= features || chunk >= room) continue;
        const u32* from = &shared.codes[feature][chunk / 4 ^ swizzle(feature)];
        const IntQuad quad = load_shared(*reinterpret_cast<const IntQuad*>(from));
        if (q.vectors && room >= chunk + 16) {
            store_global(reinterpret_cast<IntQuad*>(place), quad);
        } else {
            store_each(place, to.token_stride, quad, room - chunk);
        }
    }
    sync_block();
}

template <Quantizer q, CopySpec copy>
TILEWRIGHT_DEVICE void store_operand(const CopyArguments& to, const TokenTile& tile, int features, const Codes& codes,
                                     QuantizeShared& shared) {
    if constexpr (copy.transposed) {
        store_columns<q, copy>(to, tile, features, codes, shared);
    } else {
        store_rows<q, copy>(to, tile, features, codes);
    }
}

/// Whether the operand has memory for the tile's columns. If not, it is left unchanged.
template <CopySpec copy>
TILEWRIGHT_DEVICE bool has_room(const CopyArguments& to, const TokenTile& tile) {
    return !copy.transposed || tile.column < to.columns;
}

}  // namespace tilewright::hopper
