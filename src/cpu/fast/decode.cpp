// Compiled once per instruction level. Reads whole vectors only if that many codes exist. Tails go through a zeroed
// buffer, so that no byte beyond an operand is touched.
#include "cpu/fast/decode.h"

#include "cpu/fast/vector.h"

namespace tilewright::cpu::TILEWRIGHT_ISA {
namespace {

struct E4m3 {
    static constexpr int bits = 8;
    static Vector decode(const std::byte* from, const CodeTables& tables) { return decode_e4m3(from, tables); }
};
struct E5m2 {
    static constexpr int bits = 8;
    static Vector decode(const std::byte* from, const CodeTables& tables) { return decode_e5m2(from, tables); }
};
struct E2m1 {
    static constexpr int bits = 4;
    static Vector decode(const std::byte* from, const CodeTables& tables) { return decode_e2m1(from, tables); }
};
struct Bf16 {
    static constexpr int bits = 16;
    static Vector decode(const std::byte* from, const CodeTables&) { return decode_bf16(from); }
};
struct F16 {
    static constexpr int bits = 16;
    static Vector decode(const std::byte* from, const CodeTables&) { return decode_f16(from); }
};
struct F32 {
    static constexpr int bits = 32;
    static Vector decode(const std::byte* from, const CodeTables&) {
        Vector v;
        __builtin_memcpy(&v, from, sizeof(v));
        return v;
    }
};

int smaller(int x, int y) { return x < y ? x : y; }

template <class Codec>
class Decoder {
public:
    explicit Decoder(const DecodeJob& job)
        : job_(job), tables_{code_values(Format::e4m3), code_values(Format::e5m2), code_values(Format::e2m1)} {}

    void run() {
        for (int r = 0; r < job_.row_count; r += width) {
            const int rows = smaller(width, job_.row_count - r);
            if (is_gapless_along_rows(r, rows)) {
                if (job_.out_row_stride == 1) {
                    rows_to_rows(r);
                } else {
                    rows_to_k(r);
                }
                continue;
            }
            const std::byte* sources[width];
            find_rows(r, rows, sources);
            if (job_.out_k_stride == 1) {
                for (int i = 0; i < rows; ++i) k_to_k(r + i, sources[i]);
            } else {
                k_to_rows(r, rows, sources);
            }
        }
    }

private:
    std::int64_t row(int r) const { return job_.rows == nullptr ? job_.first_row + r : job_.rows[r]; }
    std::int64_t index(int r, int k) const { return job_.base + row(r) * job_.row_stride + k * job_.k_stride; }
    const std::byte* address(std::int64_t element) const {
        return static_cast<const std::byte*>(job_.values) + element * Codec::bits / 8;
    }
    static bool whole_bytes(std::int64_t element) { return Codec::bits >= 8 || element % 2 == 0; }
    static int bytes(int count) { return (count * Codec::bits + 7) / 8; }
    float scale(int r, int k) const {
        return job_.scales[r + (job_.k_block == 0 ? 0 : k / job_.k_block * job_.scale_stride)];
    }

    bool is_gapless_along_rows(int r, int rows) const {
        if (job_.row_stride != 1 || rows < width || job_.k_stride == 1) return false;
        if (!whole_bytes(index(r, 0)) || !whole_bytes(job_.k_stride)) return false;
        return row(r + width - 1) == row(r) + width - 1;
    }

    /// The address of each row's codes along k, without gaps: in place, or gathered into the scratch memory.
    void find_rows(int r, int rows, const std::byte** sources) {
        const bool in_place = job_.k_stride == 1 && whole_bytes(job_.row_stride) && whole_bytes(job_.base);
        for (int i = 0; i < rows; ++i) {
            sources[i] = in_place ? address(index(r + i, 0)) : job_.scratch + i * row_bytes;
            if (!in_place) gather(r + i, job_.scratch + i * row_bytes);
        }
    }

    void gather(int r, std::byte* to) const {
        for (int k = 0; k < job_.k_count; ++k) {
            const std::int64_t from = index(r, k);
            if constexpr (Codec::bits == 4) {
                const unsigned code = unsigned(*address(from)) >> (from % 2 * 4) & 15U;
                const unsigned lower = k % 2 == 0 ? 0 : unsigned(to[k / 2]);
                to[k / 2] = static_cast<std::byte>(lower | code << (k % 2 * 4));
            } else {
                __builtin_memcpy(to + k * (Codec::bits / 8), address(from), Codec::bits / 8);
            }
        }
    }

    Vector decode_some(const std::byte* from, int count) const {
        if (count >= width) return Codec::decode(from, tables_);
        std::byte codes[width * Codec::bits / 8] = {};
        __builtin_memcpy(codes, from, static_cast<std::size_t>(bytes(count)));
        return Codec::decode(codes, tables_);
    }

    static void store_some(float* to, Vector v, int count) {
        if (count >= width) return store(to, v);
        float values[width];
        store(values, v);
        __builtin_memcpy(to, values, static_cast<std::size_t>(count) * sizeof(float));
    }

    void k_to_k(int r, const std::byte* from) const {
        float* to = job_.out + r * job_.out_row_stride;
        const int block = job_.k_block == 0 ? job_.k_count : job_.k_block;
        for (int begin = 0; begin < job_.k_count; begin += block) {
            const Vector factor = broadcast(scale(r, begin));
            const int end = smaller(begin + block, job_.k_count);
            int k = begin;
            for (; k + width <= end; k += width) {
                store(to + k, multiply(Codec::decode(from + k * Codec::bits / 8, tables_), factor));
            }
            if (k < end) {
                store_some(to + k, multiply(decode_some(from + k * Codec::bits / 8, end - k), factor), end - k);
            }
        }
    }

    void k_to_rows(int r, int rows, const std::byte* const* sources) const {
        for (int k = 0; k < job_.k_count; k += width) {
            const int count = smaller(width, job_.k_count - k);
            Vector v[width];
            for (int i = 0; i < width; ++i) {
                v[i] = zero();
                if (i < rows) {
                    const std::byte* from = sources[i] + k * Codec::bits / 8;
                    v[i] = multiply(decode_some(from, count), broadcast(scale(r + i, k)));
                }
            }
            transpose(v);
            for (int i = 0; i < count; ++i) store(job_.out + r + (k + i) * job_.out_k_stride, v[i]);
        }
    }

    Vector scaled_rows(int r, int k) const {
        const Vector factors = load(&job_.scales[r + (job_.k_block == 0 ? 0 : k / job_.k_block * job_.scale_stride)]);
        return multiply(Codec::decode(address(index(r, k)), tables_), factors);
    }

    void rows_to_rows(int r) const {
        for (int k = 0; k < job_.k_count; ++k) store(job_.out + r + k * job_.out_k_stride, scaled_rows(r, k));
    }

    void rows_to_k(int r) const {
        for (int k = 0; k < job_.k_count; k += width) {
            const int count = smaller(width, job_.k_count - k);
            Vector v[width];
            for (int i = 0; i < width; ++i) v[i] = i < count ? scaled_rows(r, k + i) : zero();
            transpose(v);
            for (int i = 0; i < width; ++i) store_some(job_.out + (r + i) * job_.out_row_stride + k, v[i], count);
        }
    }

    static constexpr int row_bytes = decode_k_limit * Codec::bits / 8;
    static_assert(width * row_bytes <= decode_scratch_bytes);

    DecodeJob job_;
    CodeTables tables_;
};

}  // namespace

void decode(const DecodeJob& job) {
    switch (job.format) {
        case Format::e4m3: return Decoder<E4m3>(job).run();
        case Format::e5m2: return Decoder<E5m2>(job).run();
        case Format::e2m1: return Decoder<E2m1>(job).run();
        case Format::bf16: return Decoder<Bf16>(job).run();
        case Format::f16: return Decoder<F16>(job).run();
        case Format::f32: return Decoder<F32>(job).run();
        default: return;
    }
}

float decode_gain(Format format) { return format == Format::e4m3 ? e4m3_gain : 1; }

}  // namespace tilewright::cpu::TILEWRIGHT_ISA
