#include "safetensors/stack_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <stdexcept>
#include <string>

namespace tilewright::safetensors {
namespace {

struct ExpertName {
    std::string stack{};  // without the number
    std::int64_t number = 0;
};

std::optional<ExpertName> expert_name(const std::string& name) {
    static const std::regex form(R"(((?:.*\.)?experts)\.(0|[1-9]\d{0,8})(\..+))");
    std::smatch parts;
    if (!std::regex_match(name, parts, form)) return std::nullopt;
    return ExpertName{.stack = parts[1].str() + parts[3].str(), .number = std::stoll(parts[2].str())};
}

using Experts = std::map<std::int64_t, const StoredMatrix*>;

/// What is in the way of a stack; empty if nothing is.
std::string obstacle(const Experts& experts, const std::function<bool(const StoredMatrix&)>& is_chosen) {
    const StoredMatrix& first = *experts.begin()->second;
    std::int64_t expected = 0;
    for (const auto& [number, matrix] : experts) {
        if (number != expected) return fmt::format("expert {} is missing", expected);
        ++expected;
        if (!is_chosen(*matrix)) {
            return fmt::format("{} is {}", matrix->name,
                               matrix->scheme == "unquantised" ? "not quantized" : "not chosen");
        }
        const bool alike = matrix->recipe == first.recipe && matrix->shape() == first.shape() &&
                           matrix->packed == first.packed && !matrix->grouped;
        if (alike) continue;
        return fmt::format("{} is {} {}, {} is {} {}", matrix->name, name(matrix->recipe), to_string(matrix->shape()),
                           first.name, name(first.recipe), to_string(first.shape()));
    }
    return "";
}

StoredMatrix stack_of(const std::string& name, const Experts& experts) {
    StoredMatrix stack = *experts.begin()->second;
    stack.name = name;
    stack.grouped = true;
    stack.groups = static_cast<std::int64_t>(experts.size());
    for (const auto& [number, matrix] : experts) stack.experts.push_back(*matrix);
    return stack;
}

}  // namespace

std::vector<StoredMatrix> stacked_experts(const std::vector<StoredMatrix>& matrices,
                                          const std::function<bool(const StoredMatrix&)>& is_chosen) {
    std::map<std::string, Experts> stacks;
    std::vector<StoredMatrix> result;
    for (const StoredMatrix& matrix : matrices) {
        const auto expert = expert_name(matrix.name);
        if (expert) stacks[expert->stack].emplace(expert->number, &matrix);
        if (!expert) result.push_back(matrix);
    }
    for (const auto& [name, experts] : stacks) {
        const bool chosen = std::ranges::any_of(experts, [&](const auto& one) { return is_chosen(*one.second); });
        if (!chosen) {
            for (const auto& [number, matrix] : experts) result.push_back(*matrix);
            continue;
        }
        const std::string reason = obstacle(experts, is_chosen);
        if (!reason.empty()) throw std::runtime_error(fmt::format("{} cannot be stacked: {}", name, reason));
        result.push_back(stack_of(name, experts));
    }
    return result;
}

}  // namespace tilewright::safetensors
