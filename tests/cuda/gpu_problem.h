// A well-formed call whose tensors claim to be on a GPU, and a runtime that runs it on the fake driver.
#pragma once

#include <tilewright/error.h>
#include <tilewright/problem.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/fake_driver.h"
#include "cuda/runtime.h"
#include "kernel_of_recipe.h"
#include "launch/kernels.h"
#include "launch/moe.h"
#include "plan/legality.h"
#include "plan/shipped_tiles.h"
#include "problem/gpu_call.h"
#include "problem/problem_sizes.h"
#include "problem/workspace.h"

namespace tilewright::test {

struct GpuSizes {
    std::int64_t m = 256;
    std::int64_t n = 512;
    std::int64_t k = 1024;
    int device = 0;
    Layout layout = Layout::nt;
    Format weights = Format::e4m3;  // or e2m1: MXFP4
};

/// 1x128 x 128x128, at addresses that are never read; `base` tells calls of one kind apart.
inline Problem gpu_problem(const GpuSizes& sizes, std::uintptr_t base = 0x10000000) {
    const OperandRecipe blocks{Format::e4m3, Granularity::block_128x128, Format::f32};
    const OperandRecipe mxfp4{Format::e2m1, Granularity::block_1x32, Format::ue8m0};
    Problem p = problem_of({.recipe = {{Format::e4m3, Granularity::block_1x128, Format::f32},
                                       sizes.weights == Format::e2m1 ? mxfp4 : blocks},
                            .layout = sizes.layout,
                            .m = sizes.m,
                            .n = sizes.n,
                            .k = sizes.k});
    std::uintptr_t address = base;
    for (Tensor* tensor : {&p.a.values, &p.a.scales, &p.b.values, &p.b.scales, &p.d}) {
        tensor->data = reinterpret_cast<void*>(address);
        tensor->device = {.kind = DeviceId::Kind::cuda, .index = sizes.device};
        address += 0x1000000;
    }
    return p;
}

/// A row-major tensor at an address that is never read.
inline Tensor gpu_tensor(Format format, const Dims& shape, int device) {
    Tensor tensor = row_major(reinterpret_cast<void*>(0x20000000), format, shape);
    tensor.device = {.kind = DeviceId::Kind::cuda, .index = device};
    return tensor;
}

/// A pack with entries, in which nothing is compiled and nothing is machine code. Kernels have the names of their
/// functions. The entries are for:
/// - the other kernels that ship, and further ones that pack weights;
/// - every tile that the planner may choose in layouts nt and nn and for MXFP4 weights, expanded ones too.
inline const cuda::KernelPack& pack_of_all_candidates() {
    static const std::string bytes = [] {
        std::vector<std::string> expressions;
        const hopper::Kernel blocks = tests::of_recipe("1x128:128x128");
        hopper::Kernel columns = blocks, wide = tests::of_recipe("1x128:mxfp4"), expanded = wide;
        columns.b.form = hopper::Form::columns;
        wide.wide_rows = true;
        hopper::Kernel in_place = wide;
        in_place.b.form = hopper::Form::rows_and_tiles;
        expanded.b.form = hopper::Form::rows;
        for (const hopper::Kernel& family : {blocks, columns, wide, in_place, expanded}) {
            for (const hopper::Kernel& tile : planner::candidates(family)) {
                hopper::Kernel fast = tile;
                fast.output = hopper::Output::bf16_by_tma;
                hopper::Kernel by_row = fast;
                by_row.scales_along_k = true;
                for (const hopper::Kernel& each : {tile, fast, by_row}) {
                    expressions.push_back(launch::kernel_expression(each));
                }
            }
        }
        std::vector<launch::OtherKernel> other_kernels = launch::shipped_other_kernels();
        // Codes at any byte, and those that stay where they are.
        other_kernels.insert(other_kernels.end(), {launch::PackTiles{{.vectors = false}},
                                                   launch::PackHeads{{.vectors = false}}, launch::PackScales{}});
        for (const launch::OtherKernel& each : other_kernels) expressions.push_back(launch::kernel_expression(each));
        std::vector<cuda::PackedKernel> kernels;
        for (const std::string& expression : expressions) {
            const std::string_view function = std::string_view(expression).substr(0, expression.find('<'));
            kernels.push_back({.expression = expression, .name = function, .cubin = "cubin"});
        }
        return cuda::pack_bytes(kernels);
    }();
    static const cuda::KernelPack pack(bytes);
    return pack;
}

/// A stream that no driver made.
inline cuda::StreamHandle stream(std::intptr_t value) { return reinterpret_cast<cuda::StreamHandle>(value); }

/// A separate runtime on a fake driver in its first state, with no context current.
class FakeMachine {
public:
    FakeMachine();

    FakeDriver& fake() { return fake_; }
    const cuda::Driver& driver() const { return driver_; }
    cuda::Runtime& runtime() { return runtime_; }
    /// As tilewright::run does it after validation.
    void run(const Problem& problem, const cuda::InStream& order, const Workspace& workspace = {}) {
        const GpuCall call = gpu_call(problem, workspace.data);
        std::vector<Finding> findings = check_workspace(problem, call.before, workspace);
        if (!findings.empty()) throw Error(std::move(findings));
        runtime_.run(problem, call, order, workspace);
    }
    void make_current(int device) { make_current_(device); }

private:
    FakeDriver& fake_;
    void (*make_current_)(int);
    cuda::Driver driver_;
    cuda::Runtime runtime_;
};

}  // namespace tilewright::test
