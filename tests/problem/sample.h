// Well-formed calls at made-up addresses: validation never follows a pointer.
#pragma once

#include <tilewright/error.h>
#include <tilewright/problem.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "problem/geometry.h"
#include "problem/workspace.h"
#include "problem/workspace_plan.h"

namespace tilewright::test {

struct SampleSpec {
    Grouping grouping = Grouping::dense;
    Layout layout = Layout::nt;
    const char* recipe = "1x128:128x128";
    std::int64_t m = 64;
    std::int64_t n = 256;
    std::int64_t k = 512;
    std::int64_t groups = 4;
    Format output = Format::bf16;
    bool with_c = false;
};

/// A row-major tensor at a separate address.
Tensor placed(Format format, const Dims& shape);

Problem sample(const SampleSpec& spec);

/// The same without gaps between dimensions exchanged: the transposed view of a matrix, groups stay in front.
Tensor transposed(const Tensor& tensor);

/// With all tensors in a GPU's memory.
Problem sample_on_gpu(const SampleSpec& spec);

/// One that is never read.
inline void* address(std::uintptr_t value) { return std::bit_cast<void*>(value); }

/// The findings in a workspace for this problem.
inline std::vector<Finding> workspace_findings(const Problem& problem, const Workspace& workspace) {
    return check_workspace(problem, workspace_plan(geometry(problem)), workspace);
}

/// All findings, a line each.
std::string messages(const std::vector<Finding>& findings);

}  // namespace tilewright::test
