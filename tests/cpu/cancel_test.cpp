// A long call asks its caller now and then whether to go on, on the calling thread, and ends early when told to. A call
// with a negative number of threads does not begin.
#include "cpu/reference.h"
#include "problem/geometry.h"

#include <tilewright/error.h>
#include <tilewright/quantize.h>
#include <tilewright/run.h>

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tilewright {
namespace {

/// Asked for the third time, says yes.
class Caller {
public:
    std::function<bool()> callback() {
        return [this] {
            on_calling_thread = on_calling_thread && std::this_thread::get_id() == self_;
            return ++asked == 3;
        };
    }
    int asked = 0;
    bool on_calling_thread = true;

private:
    std::thread::id self_ = std::this_thread::get_id();
};

/// Hours of work from a few MiB: all rows of an operand are the same memory.
struct LongProduct {
    static constexpr std::int64_t size = 2048;
    static constexpr std::int64_t k = 1 << 22;

    LongProduct() : values(k, std::byte{0x38}), d(size * size) {
        Operand operand{
            .values = {.data = values.data(), .format = Format::e4m3, .shape = {size, k}, .strides = {0, 1}},
            .granularity = Granularity::tensor,
            .scales = row_major(&scale, Format::f32, {1})};
        problem.a = operand;
        problem.b = operand;
        problem.d = row_major(d.data(), Format::f32, {size, size});
    }

    std::vector<std::byte> values;
    float scale = 1;
    std::vector<float> d;
    Problem problem{};
};

TEST(Cancel, EndsALongProductInEveryArithmetic) {
    LongProduct call;
    for (Arithmetic arithmetic : {Arithmetic::fast, Arithmetic::bit_exact}) {
        for (int threads : {1, 2}) {
            call.problem.arithmetic = arithmetic;
            Caller caller;
            EXPECT_THROW(run(call.problem, {.threads = threads, .cancelled = caller.callback()}), Cancelled);
            EXPECT_EQ(caller.asked, 3);
            EXPECT_TRUE(caller.on_calling_thread);
        }
    }
}

TEST(Cancel, EndsTheReference) {
    LongProduct call;
    call.problem.a.values.shape[1] = call.problem.b.values.shape[1] = 4096;  // it asks between elements
    Caller caller;
    EXPECT_THROW(cpu::run_reference(geometry(call.problem), caller.callback()), Cancelled);
    EXPECT_EQ(caller.asked, 3);
}

TEST(Cancel, EndsByWhatTheCallbackThrows) {
    LongProduct call;
    const auto callback = []() -> bool { throw std::logic_error("of the caller"); };
    EXPECT_THROW(run(call.problem, {.threads = 2, .cancelled = callback}), std::logic_error);
}

TEST(Cancel, ChangesNothingWhereTheCallGoesOn) {
    std::vector<float> x(300 * 400, 0.5F);
    std::vector<float> d(300 * 300);
    Problem problem;
    problem.a.values = problem.b.values = row_major(x.data(), Format::f32, {300, 400});
    problem.d = row_major(d.data(), Format::f32, {300, 300});
    run(problem, {.cancelled = [] { return false; }});
    EXPECT_EQ(d.front(), 100);
    EXPECT_EQ(d.back(), 100);
}

TEST(Threads, ANegativeNumberIsRefusedBeforeAnythingIsWritten) {
    const std::string message = "threads: got -1; expected 0 or more. 0 leaves the number to OpenMP.";
    std::vector<float> x(64 * 128, 1.0F), d(64 * 64, 7.0F), scales(64, 7.0F);
    std::vector<std::uint8_t> codes(64 * 128, 7);
    Problem problem;
    problem.a.values = problem.b.values = row_major(x.data(), Format::f32, {64, 128});
    problem.d = row_major(d.data(), Format::f32, {64, 64});
    const Operand out{.values = row_major(codes.data(), Format::e4m3, {64, 128}),
                      .granularity = Granularity::row,
                      .scales = row_major(scales.data(), Format::f32, {64})};
    const auto expect = [&](const std::function<void()>& call) {
        try {
            call();
            ADD_FAILURE() << "no error";
        } catch (const Error& error) {
            EXPECT_EQ(error.what(), message);
        }
    };
    expect([&] { run(problem, {.threads = -1}); });
    const OperandRecipe recipe{Format::e4m3, Granularity::row, Format::f32};
    expect([&] { quantize(problem.a.values, {.recipe = recipe}, out, {.threads = -1}); });
    expect([&] { dequantize(out, problem.a.values, {.threads = -1}); });
    EXPECT_EQ(x, std::vector<float>(x.size(), 1.0F));
    EXPECT_EQ(d, std::vector<float>(d.size(), 7.0F));
    EXPECT_EQ(codes, std::vector<std::uint8_t>(codes.size(), 7));
}

/// Address space that takes memory where it is written.
class Reserved {
public:
    explicit Reserved(std::size_t bytes)
        : bytes_(bytes),
          data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
        if (data_ == MAP_FAILED) throw std::bad_alloc();
    }
    ~Reserved() { munmap(data_, bytes_); }
    Reserved(const Reserved&) = delete;
    Reserved& operator=(const Reserved&) = delete;
    void* data() const { return data_; }

private:
    std::size_t bytes_;
    void* data_;
};

TEST(Cancel, EndsALongConversion) {
    constexpr std::int64_t rows = 1 << 20;
    constexpr std::int64_t k = 1 << 14;
    std::vector<float> source(k, 1.0F);
    const Tensor same_rows{.data = source.data(), .format = Format::f32, .shape = {rows, k}, .strides = {0, 1}};
    const Reserved bytes(std::size_t{rows} * k);
    const Reserved scales(std::size_t{rows} * (k / 128) * sizeof(float));
    const Operand out{.values = row_major(bytes.data(), Format::e4m3, {rows, k}),
                      .granularity = Granularity::block_1x128,
                      .scales = row_major(scales.data(), Format::f32, {rows, k / 128})};
    const OperandRecipe recipe{Format::e4m3, Granularity::block_1x128, Format::f32};
    Caller quantizing;
    EXPECT_THROW(quantize(same_rows, {.recipe = recipe}, out, {.cancelled = quantizing.callback()}), Cancelled);
    EXPECT_EQ(quantizing.asked, 3);

    Operand operand = out;
    operand.values.strides[0] = 0;
    const Reserved numbers(std::size_t{rows} * k * 2);
    Caller dequantizing;
    EXPECT_THROW(
        dequantize(operand, row_major(numbers.data(), Format::bf16, {rows, k}), {.cancelled = dequantizing.callback()}),
        Cancelled);
    EXPECT_EQ(dequantizing.asked, 3);
    EXPECT_TRUE(quantizing.on_calling_thread && dequantizing.on_calling_thread);
}

}  // namespace
}  // namespace tilewright
