// The numbers of conversions, from bytes to bytes, against decoding that is written here from the formats' papers.
#include <gtest/gtest.h>

#include <cmath>

#include "safetensors/checkpoint_tests.h"

namespace tilewright::safetensors {
namespace {

using test::TemporaryFolder;

double e4m3(unsigned code) {
    const int exponent = static_cast<int>(code >> 3 & 15);
    const double fraction = (code & 7) / 8.0;
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -6) : std::ldexp(1 + fraction, exponent - 7);
    return (code & 128) != 0 ? -magnitude : magnitude;
}

double e2m1(unsigned code) {
    constexpr std::array magnitudes{0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
    return (code & 8) != 0 ? -magnitudes[code & 7] : magnitudes[code & 7];
}

unsigned byte(const std::string& bytes, std::size_t i) { return static_cast<unsigned char>(bytes[i]); }
double nibble(const std::string& bytes, std::size_t i) { return e2m1(byte(bytes, i / 2) >> i % 2 * 4 & 15); }
double real(const std::string& bytes, std::size_t i) {
    float number = 0;
    std::memcpy(&number, bytes.data() + i * 4, 4);
    return number;
}

struct Matrix {
    std::string name;
    std::size_t n;
    std::size_t k;
    std::vector<FileTensor> tensors;
    std::vector<double> numbers;
};

/// A matrix of each kind whose numbers are no powers of two times those of the new format.
Matrix of_fp8() {
    Matrix m{"model.layers.1.mlp.down_proj.weight", 200, 130, deepseek_v3(), {}};
    for (std::size_t i = 0; i < m.n * m.k; ++i) {
        m.numbers.push_back(e4m3(byte(m.tensors[0].bytes, i)) *
                            real(m.tensors[1].bytes, i / 130 / 128 * 2 + i % 130 / 128));
    }
    return m;
}

Matrix of_nvfp4(bool divides) {
    Matrix m{"model.layers.0.q_proj.weight", 64, 64, divides ? compressed_tensors() : modelopt(), {}};
    for (std::size_t i = 0; i < m.n * m.k; ++i) {
        const double number = nibble(m.tensors[0].bytes, i) * e4m3(byte(m.tensors[1].bytes, i / 16));
        m.numbers.push_back(divides ? number / 896 : number * 0.125);
    }
    return m;
}

struct Target {
    const char* recipe;
    std::size_t rows;  // of a block
    std::size_t columns;
    bool fp4;
};

/// No number of the format, times the scale, is nearer than what was written. f32 in between rounds by 2^-24.
void expect_nearest(const Target& target, double before, double scale, double after, double largest) {
    double least = INFINITY;
    for (unsigned code = 0; code < (target.fp4 ? 16U : 256U); ++code) {
        if (!target.fp4 && (code & 127) == 127) continue;  // NaN
        least = std::min(least, std::abs((target.fp4 ? e2m1(code) : e4m3(code)) * scale - before));
    }
    EXPECT_LE(std::abs(after - before), least + 1e-6 * largest) << target.recipe << ": " << before << " " << scale;
}

void expect_scale(const Target& target, double scale, double largest) {
    if (target.rows == 128) {
        EXPECT_NEAR(scale, largest / 448, 1e-6 * scale);
        return;
    }
    // OCP MX: the largest magnitude times 1 / scale is in [2^emax, 2^(emax + 1)).
    const double top = largest / scale / (target.fp4 ? 4 : 256);
    EXPECT_GE(top, 1 - 1e-6) << target.recipe;
    EXPECT_LE(top, 2 + 1e-6) << target.recipe;
}

void check(const Matrix& m, const Target& target, const std::string& codes, const std::string& scales, double error) {
    const std::size_t columns = (m.k + target.columns - 1) / target.columns;
    const auto block_of = [&](std::size_t i) { return i / m.k / target.rows * columns + i % m.k / target.columns; };
    std::map<std::size_t, double> largest;
    for (std::size_t i = 0; i < m.numbers.size(); ++i) {
        largest[block_of(i)] = std::max(largest[block_of(i)], std::abs(m.numbers[i]));
    }
    const auto scale_of = [&](std::size_t block) {
        return target.rows == 128 ? real(scales, block) : std::ldexp(1, static_cast<int>(byte(scales, block)) - 127);
    };
    ASSERT_EQ(scales.size(), largest.size() * (target.rows == 128 ? 4 : 1));
    ASSERT_EQ(codes.size(), m.numbers.size() / (target.fp4 ? 2 : 1));
    for (const auto& [block, magnitude] : largest) expect_scale(target, scale_of(block), magnitude);
    double errors = 0;
    double squares = 0;
    for (std::size_t i = 0; i < m.numbers.size(); ++i) {
        const double scale = scale_of(block_of(i));
        const double after = (target.fp4 ? nibble(codes, i) : e4m3(byte(codes, i))) * scale;
        expect_nearest(target, m.numbers[i], scale, after, largest[block_of(i)]);
        errors += (after - m.numbers[i]) * (after - m.numbers[i]);
        squares += m.numbers[i] * m.numbers[i];
    }
    EXPECT_NEAR(error, std::sqrt(errors / squares), 1e-6) << target.recipe;
}

TEST(ConvertNumbers, FromFp8AndBothKindsOfNvfp4) {
    const TemporaryFolder folder;
    for (const Matrix& m : {of_fp8(), of_nvfp4(true), of_nvfp4(false)}) {
        for (const Target& target :
             {Target{"mxfp8", 1, 32, false}, Target{"mxfp4", 1, 32, true}, Target{"128x128", 128, 128, false}}) {
            if (m.n == 200 && target.rows == 128) continue;  // it is that already
            const std::string out = folder.file("out");
            const ConvertResult result = convert(job(single(folder, m.tensors), out, target.recipe));
            ASSERT_EQ(result.matrices.size(), 1U);
            EXPECT_GT(result.matrices[0].error, 0);
            const Checkpoint after(out);
            check(m, target, bytes_of(after, m.name), bytes_of(after, m.name + ".scales"), result.matrices[0].error);
        }
    }
}

}  // namespace
}  // namespace tilewright::safetensors
