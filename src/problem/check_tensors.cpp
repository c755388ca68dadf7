// Every tensor by itself: rank, sizes, strides, packing, extent.
#include "problem/checks.h"
#include "problem/strided.h"

#include <algorithm>

namespace tilewright::validation {
namespace {

bool check_shape(const NamedTensor& named, Findings& findings) {
    const Dims& shape = named.tensor->shape;
    if (shape.rank() > Dims::capacity) {
        findings.add({.operand = std::string(named.name),
                      .given = to_string(shape),
                      .expected = "at most 3 dimensions",
                      .advice = {}});
    } else if (!has_sound_shape(*named.tensor)) {
        findings.add({.operand = std::string(named.name),
                      .given = to_string(shape),
                      .expected = "sizes of 0 or more",
                      .advice = {}});
    }
    return has_sound_shape(*named.tensor);
}

bool check_strides(const NamedTensor& named, Findings& findings) {
    const Tensor& tensor = *named.tensor;
    Finding finding{.operand = std::string(named.name) + ".strides",
                    .given = to_string(tensor.strides),
                    .expected = {},
                    .advice = {}};
    if (tensor.strides.rank() != tensor.shape.rank()) {
        finding.expected = "one stride per dimension of " + to_string(tensor.shape);
    } else if (std::any_of(tensor.strides.begin(), tensor.strides.end(), [](auto stride) { return stride < 0; })) {
        finding.expected = "strides of 0 or more";
        finding.advice = "copy the reversed view";
    } else if (!has_sound_strides(tensor)) {
        finding.given += " with sizes " + to_string(tensor.shape);
        finding.expected = "a span below 2^60 bytes";
    } else {
        return true;
    }
    findings.add(std::move(finding));
    return false;
}

/// All strides but that of `packed` are even, those of dimensions of size 1 aside.
bool rows_start_on_bytes(const Tensor& tensor, int packed) {
    for (int i = 0; i < tensor.shape.rank(); ++i) {
        if (i != packed && tensor.shape[i] > 1 && tensor.strides[i] % 2 != 0) return false;
    }
    return true;
}

void check_packing(const NamedTensor& named, Findings& findings) {
    const Tensor& tensor = *named.tensor;
    int packed = -1;
    for (int i = 0; i < tensor.shape.rank(); ++i) {
        if (tensor.strides[i] != 1) continue;
        packed = i;
        if (tensor.shape[i] % 2 == 0 && rows_start_on_bytes(tensor, i)) return;
    }
    Finding finding{.operand = std::string(named.name) + ".strides",
                    .given = to_string(tensor.strides),
                    .expected = "a stride of 1 in the packed dimension of e2m1",
                    .advice = "e2m1 stores two elements per byte"};
    if (packed >= 0 && tensor.shape[packed] % 2 != 0) {
        finding.operand = std::string(named.name);
        finding.given = to_string(tensor.shape);
        finding.expected = "an even size in the packed dimension of e2m1 (stride 1)";
        finding.advice = "pad it with a zero";
    } else if (packed >= 0) {
        finding.expected = "even strides in the other dimensions of e2m1";
        finding.advice = "each row starts on a whole byte";
    }
    findings.add(std::move(finding));
}

}  // namespace

void check_tensors(const Problem& problem, Findings& findings) {
    for (const NamedTensor& named : tensors_of(problem)) {
        const Tensor& tensor = *named.tensor;
        if (!tensor.given() || !check_shape(named, findings) || !check_strides(named, findings)) continue;
        const bool values = &tensor == &problem.a.values || &tensor == &problem.b.values;
        if (values && tensor.format == Format::e2m1 && !is_empty(tensor)) check_packing(named, findings);
        if (&tensor == &problem.d && overlaps_itself(tensor)) {
            findings.add({.operand = "d.strides",
                          .given = to_string(tensor.strides),
                          .expected = "a separate address for each element of " + to_string(tensor.shape),
                          .advice = {}});
        }
    }
}

}  // namespace tilewright::validation
