// Forked children of a process that has computed on several threads, which a fork does not copy: they compute too, and
// nothing hangs.
#include "cpu/blas.h"
#include "cpu/fast/fast.h"
#include "problem/geometry.h"

#include <tilewright/error.h>
#include <tilewright/quantize.h>
#include <tilewright/run.h>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace tilewright {
namespace {

struct Product {
    static constexpr std::int64_t size = 256;

    explicit Product(Arithmetic arithmetic) : values(size * size, 0x3F80), d(size * size) {
        problem.a.values = problem.b.values = row_major(values.data(), Format::bf16, {size, size});
        problem.d = row_major(d.data(), Format::f32, {size, size});
        problem.arithmetic = arithmetic;
    }
    bool is_right() const { return d.front() == size && d.back() == size; }

    std::vector<std::uint16_t> values;  // ones
    std::vector<float> d;
    Problem problem{};
};

void quantize_something(int threads) {
    std::vector<std::uint16_t> ones(512 * 512, 0x3F80);
    std::vector<std::byte> values(ones.size());
    std::vector<float> scales(512);
    const Operand out{.values = row_major(values.data(), Format::e4m3, {512, 512}),
                      .granularity = Granularity::row,
                      .scales = row_major(scales.data(), Format::f32, {512})};
    const OperandRecipe recipe{Format::e4m3, Granularity::row, Format::f32};
    quantize(row_major(ones.data(), Format::bf16, {512, 512}), {.recipe = recipe}, out, {.threads = threads});
}

/// The number that `work` returns in a forked child; -1 where it hangs for half a minute or crashes.
template <class Function>
int in_child(Function work) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(30);
        _exit(work());
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Fork, AChildComputesOnSeveralThreads) {
    for (Arithmetic arithmetic : {Arithmetic::fast, Arithmetic::bit_exact}) {
        Product product(arithmetic);
        run(product.problem, {.threads = 2});
        ASSERT_TRUE(product.is_right());
        const int failure = in_child([&] {
            for (const int threads : {2, 1, 3}) {
                product.d.assign(product.d.size(), 0);
                run(product.problem, {.threads = threads});
                if (!product.is_right()) return threads;
            }
            return 0;
        });
        EXPECT_EQ(failure, 0) << name(arithmetic);
        run(product.problem, {.threads = 2});  // the parent goes on as before
    }
}

TEST(Fork, AlsoQuantises) {
    quantize_something(2);
    EXPECT_EQ(in_child([] {
                  quantize_something(2);
                  return in_child([] {  // and its child
                      quantize_something(2);
                      return 0;
                  });
              }),
              0);
}

/// As torch does it: the library is not asked before the fork.
TEST(Fork, AlsoWhereSomebodyElseOpenedTheRegions) {
    int threads = 0;
#pragma omp parallel num_threads(3) reduction(+ : threads)
    threads += 1;
    EXPECT_EQ(threads, 3);
    EXPECT_EQ(in_child([] {
                  quantize_something(2);
                  return 0;
              }),
              0);
}

/// Calls at once: the second has no use of the thread that the first one has.
TEST(Fork, SeveralThreadsOfAChildCompute) {
    quantize_something(2);
    EXPECT_EQ(in_child([] {
                  std::vector<std::thread> callers;
                  for (int i = 0; i < 3; ++i) {
                      callers.emplace_back([] {
                          for (int j = 0; j < 20; ++j) quantize_something(2);
                      });
                  }
                  for (std::thread& caller : callers) caller.join();
                  return 0;
              }),
              0);
}

TEST(Fork, ACallInAChildIsCancelled) {
    quantize_something(2);
    EXPECT_EQ(in_child([] {
                  std::vector<std::uint16_t> row(1 << 16, 0x3F80);
                  std::vector<float> d(2048 * 2048);
                  Problem problem;
                  problem.a.values = problem.b.values = {
                      .data = row.data(), .format = Format::bf16, .shape = {2048, 1 << 16}, .strides = {0, 1}};
                  problem.d = row_major(d.data(), Format::f32, {2048, 2048});
                  const std::thread::id self = std::this_thread::get_id();
                  bool by_caller = false;
                  try {
                      run(problem, {.threads = 2, .cancelled = [&] {
                                        by_caller = std::this_thread::get_id() == self;
                                        return true;
                                    }});
                  } catch (const Cancelled&) {
                      return by_caller ? 0 : 1;
                  }
                  return 2;
              }),
              0);
}

/// OpenBLAS has its own handlers for forks. This library relies on them, so this test checks that they work.
TEST(Fork, OpenBlasWorksInAChild) {
    if (!cpu::blas_found()) GTEST_SKIP() << "no OpenBLAS on this machine: the built-in kernels multiply";
    Product product(Arithmetic::fast);
    cpu::set_blas_threads(2);
    std::vector<float> x(512 * 512, 1.0F);
    std::vector<float> y(512 * 512);
    const cpu::SgemmArguments all_threads{.m = 512,
                                          .n = 512,
                                          .k = 512,
                                          .a = x.data(),
                                          .a_stride = 512,
                                          .b = x.data(),
                                          .b_stride = 512,
                                          .c = y.data(),
                                          .c_stride = 512};
    cpu::sgemm(all_threads);  // its threads run
    const int failure = in_child([&] {
        const cpu::FastOptions options{.threads = 1, .multiplier = cpu::Multiplier::openblas};
        cpu::run_fast(geometry(product.problem), options);
        return product.is_right() ? 0 : 1;
    });
    EXPECT_EQ(failure, 0);
}

}  // namespace
}  // namespace tilewright
