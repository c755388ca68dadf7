#include "problem/workspace.h"

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "problem/findings.h"
#include "problem/geometry.h"
#include "problem/strided.h"
#include "problem/workspace_plan.h"

namespace tilewright {
namespace {

constexpr const char* advice =
    "pass workspace_bytes(problem) bytes of GPU memory as RunOptions::workspace (workspace= in Python)";

Finding finding(const std::string& given, const std::string& expected) {
    return {.operand = "workspace", .given = given, .expected = expected, .advice = advice};
}

/// The tensor that has a byte of the workspace, or nothing.
std::string_view sharer(const Problem& problem, const Tensor& bytes) {
    using namespace validation;
    for (const NamedTensor& named : tensors_of(problem)) {
        if (has_memory(*named.tensor) && overlap(*named.tensor, bytes)) return named.name;
    }
    const PackedWeights& packed = problem.b.packed;
    if (!packed.given() || packed.data == nullptr) return {};
    return overlap(row_major(packed.data, Format::ue8m0, {packed.bytes}), bytes) ? "b.packed" : "";
}

std::string purpose(const WorkspacePlan& plan) {
    std::vector<std::string> parts;
    if (plan.pack_b) parts.emplace_back(plan.pack_b->raw ? "scales of weights" : "packed weights");
    if (plan.expand_b) parts.push_back("weights expanded to " + std::string(name(plan.expand_b->values)));
    if (plan.decode_a) parts.emplace_back("decoded activations");
    if (plan.decode_b) parts.emplace_back("decoded weights");
    if (plan.copy_a && plan.copy_b) {
        parts.emplace_back("K-major copies of a.values and b.values");
    } else if (plan.copy_a || plan.copy_b) {
        parts.emplace_back(plan.copy_a ? "a K-major copy of a.values" : "a K-major copy of b.values");
    }
    return parts.size() == 1 ? parts[0] : parts[0] + " and " + parts[1];
}

bool is_along_k(const Tensor& values, bool transposed) {
    const int rank = values.strides.rank();
    if (rank < 2 || rank > Dims::capacity || !is_fp8(values.format)) return false;
    return values.strides[transposed ? rank - 2 : rank - 1] == 1;
}

/// The common case, known without a plan: all operands are fp8 along k.
bool reads_operands_as_they_are(const Problem& problem) {
    return is_along_k(problem.a.values, a_is_transposed(problem.layout)) &&
           is_along_k(problem.b.values, b_is_transposed(problem.layout));
}

}  // namespace

std::vector<Finding> check_workspace(const Problem& problem, const WorkspacePlan& plan, const Workspace& workspace) {
    const std::int64_t needed = plan.bytes;
    if (needed == 0) return {};
    const std::string expected = std::to_string(needed) + " bytes or more for " + purpose(plan);
    if (workspace.data == nullptr) return {finding("nothing", expected)};
    if (workspace.bytes < needed) return {finding(std::to_string(workspace.bytes) + " bytes", expected)};
    const std::uintptr_t rest = std::bit_cast<std::uintptr_t>(workspace.data) % workspace_alignment;
    if (rest != 0) {
        return {finding("an address that is " + std::to_string(rest) + " modulo 128", "a multiple of 128")};
    }
    const std::string_view name = sharer(problem, row_major(workspace.data, Format::ue8m0, {needed}));
    if (!name.empty()) return {finding("memory that overlaps " + std::string(name), "separate memory")};
    return {};
}

std::int64_t workspace_bytes(const Problem& problem) {
    if (reads_operands_as_they_are(problem)) return 0;
    if (!validate(problem, Backend::hopper, Check::shapes).empty()) return 0;
    return workspace_plan(geometry(problem)).bytes;
}

}  // namespace tilewright
