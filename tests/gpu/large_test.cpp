// Operands and outputs of more than 2^31 elements and 4 GiB. Rows repeat with a period,
// so that a small problem on the CPU says what every row of the large one must be.
#include <gtest/gtest.h>
#include <tilewright/run.h>

#include <algorithm>
#include <cstring>

#include "check/case.h"
#include "cpu/exact/exact.h"
#include "gpu/recipes.h"
#include "measure/device.h"

namespace tilewright::test {
namespace {

constexpr std::int64_t period = 4096;

/// Copies of the first `rows` rows of `pitch` bytes until `total` rows are there.
measure::Buffer repeated(const void* block, std::int64_t rows, std::int64_t pitch, std::int64_t total) {
    measure::Buffer buffer(static_cast<std::size_t>(total * pitch));
    for (std::int64_t row = 0; row < total; row += rows) {
        const std::int64_t count = std::min(rows, total - row);
        buffer.upload(block, static_cast<std::size_t>(count * pitch), static_cast<std::size_t>(row * pitch));
    }
    return buffer;
}

Tensor on_gpu(Tensor tensor, const measure::Buffer& memory, std::int64_t rows) {
    tensor.data = memory.data();
    tensor.device = {.kind = DeviceId::Kind::cuda, .index = 0};
    tensor.shape[0] = rows;
    return tensor;
}

std::int64_t row_bytes(const Tensor& tensor) { return tensor.shape[1] * bits(tensor.format) / 8; }

struct Large {
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
};

/// Everything of the large product, held against the small one.
void expect_periodic(const Large& large) {
    measure::Device device;
    check::Case small({.recipe = recipe_of("1x128:128x128"),
                       .m = std::min(large.m, period),
                       .n = std::min(large.n, period),
                       .k = large.k});
    small.problem().arithmetic = Arithmetic::bit_exact;
    cpu::run_exact(small.geometry());
    Problem p = small.problem();
    const measure::Buffer a = repeated(p.a.values.data, small.spec().m, row_bytes(p.a.values), large.m);
    const measure::Buffer a_scales = repeated(p.a.scales.data, small.spec().m, row_bytes(p.a.scales), large.m);
    const measure::Buffer b = repeated(p.b.values.data, small.spec().n, row_bytes(p.b.values), large.n);
    const std::int64_t blocks = p.b.scales.shape[0];
    const std::int64_t all_blocks = (large.n + 127) / 128;
    const measure::Buffer b_scales = repeated(p.b.scales.data, blocks, row_bytes(p.b.scales), all_blocks);
    p.a.values = on_gpu(p.a.values, a, large.m);
    p.a.scales = on_gpu(p.a.scales, a_scales, large.m);
    p.b.values = on_gpu(p.b.values, b, large.n);
    p.b.scales = on_gpu(p.b.scales, b_scales, all_blocks);
    measure::Buffer d(static_cast<std::size_t>(large.m * large.n) * 2);
    d.fill(0xFF);
    p.d = row_major(d.data(), Format::bf16, {large.m, large.n});
    p.d.device = {.kind = DeviceId::Kind::cuda, .index = 0};
    device.synchronize();
    run(p, {.backend = Backend::hopper, .stream = device.stream()});
    device.synchronize();

    const auto* expected = static_cast<const std::uint16_t*>(small.problem().d.data);
    std::vector<std::uint16_t> row(static_cast<std::size_t>(large.n));
    for (std::int64_t i = 0; i < large.m; ++i) {
        d.download(row.data(), row.size() * 2, static_cast<std::size_t>(i * large.n) * 2);
        for (std::int64_t begin = 0; begin < large.n; begin += period) {
            const std::int64_t count = std::min(period, large.n - begin);
            const std::uint16_t* wanted = expected + i % small.spec().m * small.spec().n;
            ASSERT_EQ(std::memcmp(row.data() + begin, wanted, static_cast<std::size_t>(count) * 2), 0)
                << "row " << i << ", columns from " << begin;
        }
    }
}

TEST(GpuLarge, AOfMoreThanFourGigabytes) { expect_periodic({.m = 262144 + 129, .n = 136, .k = 16384}); }
TEST(GpuLarge, BOfMoreThanFourGigabytes) { expect_periodic({.m = 72, .n = 262144 + 136, .k = 16384}); }
TEST(GpuLarge, AAroundTwoToThe31Elements) {
    for (const std::int64_t m : {131071, 131072, 131073}) expect_periodic({.m = m, .n = 16, .k = 16384});
}
TEST(GpuLarge, DOfMoreThanTwoToThe31Elements) { expect_periodic({.m = 65536 + 3, .n = 32768 + 24, .k = 144}); }

}  // namespace
}  // namespace tilewright::test
