#include "api/product.h"

#include <tilewright/error.h>

namespace tilewright {

Workspace workspace_of(const Problem& product, Arena& arena) {
    const std::int64_t bytes = is_on_gpu(product.d) ? workspace_bytes(product) : 0;
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
