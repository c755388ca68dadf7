#include "safetensors/kept_quantised.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "safetensors/inspect.h"
#include "safetensors/quantised_tensors.h"

namespace tilewright::safetensors {
namespace {

using Named = Checkpoint::Tensor;

/// One tensor; several that are alike become one entry.
struct KeptOne {
    std::string name{};
    std::string format{};
    std::vector<std::string> scales{};
    std::string reason{};
};

class Keeper {
public:
    Keeper(const Conversion& conversion, const std::set<const Named*>& consumed,
           const std::function<std::string(const StoredMatrix&)>& reason_of)
        : c_(conversion) {
        for (const Named* tensor : consumed) done_.insert(&tensor->stored);
        for (const StoredMatrix& matrix : c_.found.matrices) {
            const bool stays = matrix.scheme != "unquantised" && !consumed.contains(matrix.values);
            if (stays) add_matrix(matrix, reason_of(matrix));
        }
        std::vector<const StoredTensor*> all;
        for (const auto& [name, tensor] : c_.checkpoint.tensors()) all.push_back(&tensor.stored);
        for (const QuantisedTensor& one : quantised_tensors(all)) add_tensor(one);
    }

    std::vector<KeptTensors> grouped() const {
        std::map<std::string, std::size_t> of_pattern;
        for (const auto& [name, tensor] : c_.checkpoint.tensors()) ++of_pattern[name_pattern(name)];
        std::map<std::tuple<std::string, std::string, std::vector<std::string>, std::string>,
                 std::vector<const KeptOne*>>
            groups;
        for (const KeptOne& one : kept_) {
            std::vector<std::string> scales;
            for (const std::string& scale : one.scales) scales.push_back(name_pattern(scale));
            groups[{name_pattern(one.name), one.format, scales, one.reason}].push_back(&one);
        }
        std::vector<KeptTensors> all;
        for (const auto& [key, members] : groups) {
            const auto& [pattern, format, scales, reason] = key;
            if (members.size() > 1 && members.size() == of_pattern[pattern]) {
                all.push_back({pattern, members.size(), format, scales, reason});
                continue;
            }
            for (const KeptOne* one : members) all.push_back({one->name, 1, format, one->scales, reason});
        }
        return all;
    }

private:
    void add_matrix(const StoredMatrix& matrix, const std::string& reason) {
        std::vector<std::string> scales;
        for (const Named* tensor : matrix.tensors()) {
            done_.insert(&tensor->stored);
            if (tensor != matrix.values) scales.push_back(tensor->stored.name);
        }
        kept_.push_back({.name = matrix.values->stored.name,
                         .format = fmt::format("{} {}{}", matrix.format(), to_string(matrix.shape()),
                                               matrix.packed ? " packed" : ""),
                         .scales = scales,
                         .reason = reason});
    }

    void add_tensor(const QuantisedTensor& one) {
        if (one.values == nullptr || done_.contains(one.values)) {
            for (const StoredTensor* scale : one.scales) add_scale(*scale, one.values != nullptr);
            return;
        }
        std::vector<std::string> scales;
        for (const StoredTensor* scale : one.scales) scales.push_back(scale->name);
        const std::string reason = c_.job.wanted(one.values->name) ? "not in a format that `tilewright inspect` reads"
                                                                   : "not chosen by --include and --exclude";
        kept_.push_back(
            {.name = one.values->name, .format = dtype_and_shape(*one.values), .scales = scales, .reason = reason});
    }

    /// Next to a matrix that is converted or listed, or near none.
    void add_scale(const StoredTensor& scale, bool has_values) {
        if (done_.contains(&scale) || (!has_values && !scales_activations(scale.name))) return;
        kept_.push_back({.name = scale.name,
                         .format = dtype_and_shape(scale),
                         .reason = "it scales activations or a cache, or is not needed for the weights"});
    }

    const Conversion& c_;
    std::set<const StoredTensor*> done_;
    std::vector<KeptOne> kept_;
};

}  // namespace

std::vector<KeptTensors> kept_quantised(const Conversion& conversion, const std::set<const Named*>& consumed,
                                        const std::function<std::string(const StoredMatrix&)>& reason_of) {
    return Keeper(conversion, consumed, reason_of).grouped();
}

}  // namespace tilewright::safetensors
