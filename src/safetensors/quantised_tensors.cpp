#include "safetensors/quantised_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <set>

namespace tilewright::safetensors {
namespace {

/// The part of a name after its last dot, and the part that precedes the dot.
std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }
std::string_view module_of(std::string_view name) {
    const std::size_t dot = name.rfind('.');
    return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

bool matches(std::string_view name, const std::regex& form) {
    const std::string_view last = last_part(name);
    return std::regex_search(last.begin(), last.end(), form);
}

/// Scales by any means, without a look at other tensors.
bool is_named_as_scale(std::string_view name) {
    static const std::regex form(
        R"((^|_)(scales?|amax)(_inv|_inverse|_\d+)?$|^q?scale_(weight|input|output|act)$|^SCB$|(^|_)absmax$)",
        std::regex::optimize);
    return matches(name, form);
}

/// Names of other tensors that quantizers write with a matrix. Such a name has no meaning unless a quantized tensor is
/// near.
bool is_named_as_companion(std::string_view name) {
    static const std::regex form(
        R"((^|_)(zeros?|qzeros|zero_points?|zp|g_idx|quant_map|codebooks?|shift|biases|qbias|meta)$|^weight_shape$|^bitsandbytes__)"
        R"(|(^|_)hadamard_matrix$)",
        std::regex::optimize);
    return matches(name, form);
}

bool is_of(std::string_view dtype, std::initializer_list<std::string_view> dtypes) {
    return std::ranges::find(dtypes, dtype) != dtypes.end();
}

/// Fractions of less than 16 bits; F8_E8M0 has scales only.
bool is_narrow(std::string_view dtype) {
    return (dtype.starts_with("F8_") && dtype != "F8_E8M0") || dtype.starts_with("F6_") || dtype == "F4";
}

/// The dtypes that codes are packed into.
bool is_container(std::string_view dtype) { return is_of(dtype, {"U8", "I8", "U16", "I16", "U32", "I32"}); }

/// A module has at most one tensor of these names, which its scales scale.
bool is_named_as_weight(std::string_view name) {
    return is_of(last_part(name),
                 {"weight", "qweight", "weight_packed", "q_weight", "W_q", "_data", "codes", "weight_data"});
}

/// Named as codes, whatever is near.
bool is_named_as_packed(const StoredTensor& tensor) {
    static const std::regex form(R"((^|_)(packed|blocks|qweight)$)", std::regex::optimize);
    return is_container(tensor.dtype) && matches(tensor.name, form);
}

bool is_empty(const StoredTensor& tensor) { return std::ranges::find(tensor.shape, 0U) != tensor.shape.end(); }

/// A name without the word for how it is packed, which the names of its scales do not have.
std::string_view stem_of(std::string_view name) {
    for (const std::string_view suffix : {"_packed", "_blocks", ".blocks", "_qweight", "_quantized"}) {
        if (name.size() > suffix.size() && name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
    }
    return name;
}

class Finder {
public:
    explicit Finder(const std::vector<const StoredTensor*>& tensors) {
        for (const StoredTensor* tensor : tensors) sort_in(*tensor);
        for (const StoredTensor* scale : scales_) attach(*scale, true);
        for (const StoredTensor* companion : companions_) attach(*companion, false);
    }

    std::vector<QuantisedTensor> found() const {
        std::vector<QuantisedTensor> all = lone_scales_;
        for (const auto& [name, one] : values_) {
            const bool by_itself = is_narrow(one.values->dtype) || is_named_as_packed(*one.values);
            if (!is_empty(*one.values) && (by_itself || scaled_.contains(one.values))) all.push_back(one);
        }
        std::ranges::sort(all, {}, [](const QuantisedTensor& one) {
            return one.values != nullptr ? one.values->name : one.scales.front()->name;
        });
        return all;
    }

private:
    void sort_in(const StoredTensor& tensor) {
        const std::string& name = tensor.name;
        if (is_named_as_scale(name) || tensor.dtype == "F8_E8M0") {
            scales_.push_back(&tensor);
        } else if (is_named_as_companion(name)) {
            companions_.push_back(&tensor);
        } else if (is_narrow(tensor.dtype) || is_container(tensor.dtype)) {
            QuantisedTensor* const one = &(values_[name] = {.values = &tensor});
            by_stem_.emplace(name, one);
            by_stem_.emplace(stem_of(name), one);
            if (is_named_as_weight(name)) by_module_.emplace(module_of(name), one);
        }
    }

    /// The longest name that `name` begins with, or the weight of its module; null where there is neither.
    QuantisedTensor* values_of(std::string_view name) const {
        for (std::size_t end = name.find_last_of("._"); end != std::string_view::npos && end > 0;
             end = name.find_last_of("._", end - 1)) {
            const auto found = by_stem_.find(name.substr(0, end));
            if (found != by_stem_.end()) return found->second;
        }
        const auto found = by_module_.find(module_of(name));
        return found == by_module_.end() ? nullptr : found->second;
    }

    void attach(const StoredTensor& tensor, bool is_scale) {
        QuantisedTensor* const one = values_of(tensor.name);
        if (one != nullptr) {
            one->scales.push_back(&tensor);
            if (is_scale) scaled_.insert(one->values);
        } else if (is_scale) {
            lone_scales_.push_back({.scales = {&tensor}});
        }
    }

    std::map<std::string, QuantisedTensor> values_;
    std::map<std::string_view, QuantisedTensor*> by_stem_;
    std::map<std::string_view, QuantisedTensor*> by_module_;
    std::set<const StoredTensor*> scaled_;
    std::vector<const StoredTensor*> scales_;
    std::vector<const StoredTensor*> companions_;
    std::vector<QuantisedTensor> lone_scales_;
};

}  // namespace

std::vector<QuantisedTensor> quantised_tensors(const std::vector<const StoredTensor*>& tensors) {
    return Finder(tensors).found();
}

bool scales_activations(std::string_view name) {
    static const std::regex form(
        R"(^_?(input|output|act|activation|softmax|probs?|[qkv]|kv)(_global)?_scales?(_inv)?$|^q?scale_(input|output|act)$)",
        std::regex::optimize);
    return matches(name, form);
}

std::string dtype_and_shape(const StoredTensor& tensor) {
    return fmt::format("{} [{}]", tensor.dtype, fmt::join(tensor.shape, ", "));
}

}  // namespace tilewright::safetensors
