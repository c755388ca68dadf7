#include "api/product.h"

#include <tilewright/error.h>

#include <bit>
#include <cstdint>
#include <memory>

#include "cuda/call_cache.h"
#include "cuda/same_problem.h"
#include "problem/hopper_rules.h"

namespace tilewright {
namespace {

/// The bytes of a kind of product.
struct KnownBytes {
    Problem product{};
    std::int64_t bytes = 0;
};

/// Kinds leave out addresses, but the bytes depend on this one: kernels read MXFP4 codes in place only where TMA can.
bool is_b_aligned(const Problem& product) {
    return std::bit_cast<std::uintptr_t>(product.b.values.data) % hopper_alignment == 0;
}

/// `workspace_bytes`, which validates, once per kind of the last products of a thread: a call asks for each product
/// twice.
std::int64_t known_workspace_bytes(const Problem& product) {
    thread_local const auto known = std::make_unique<cuda::Recent<KnownBytes, 32>>();
    const KnownBytes* found = known->find([&](const KnownBytes& each) {
        return is_b_aligned(each.product) == is_b_aligned(product) && cuda::same_kind(each.product, product);
    });
    return found != nullptr ? found->bytes : known->add({product, workspace_bytes(product)}).bytes;
}

}  // namespace

Workspace workspace_of(const Problem& product, Arena& arena) {
    const std::int64_t bytes = is_on_gpu(product.d) ? known_workspace_bytes(product) : 0;
    return {arena.take(bytes), bytes};
}

std::vector<Finding> renamed(std::vector<Finding> findings, const OperandNames& names) {
    for (Finding& finding : findings) {
        for (const auto& [name, own] : names) {
            if (finding.operand != name && !finding.operand.starts_with(name + ".")) continue;
            finding.operand.replace(0, name.size(), own);
            break;
        }
    }
    return findings;
}

void multiply(const Product& product, const OperandNames& names, RunOptions how) {
    how.backend = Backend::automatic;
    how.workspace = product.workspace;
    try {
        run(product.problem, how);
    } catch (const Error& error) {
        if (error.findings().empty()) throw;
        throw Error(renamed(error.findings(), names));
    }
}

ConversionOptions conversion(const RunOptions& how) {
    return {.threads = how.threads, .cancelled = how.cancelled, .stream = how.stream};
}

}  // namespace tilewright
