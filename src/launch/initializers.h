// Template parameters of kernels as C++ source: designated initializers, from the fields that a visitor receives.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

#include "hopper/description/kernel.h"
#include "hopper/moe/spec.h"
#include "hopper/quantize/quantizer.h"

namespace tilewright::launch {

constexpr const char* type_name(hopper::ValueFormat) { return "hopper::ValueFormat"; }
constexpr const char* type_name(hopper::Form) { return "hopper::Form"; }
constexpr const char* type_name(hopper::ClusterUse) { return "hopper::ClusterUse"; }
constexpr const char* type_name(hopper::Groups) { return "hopper::Groups"; }
constexpr const char* type_name(hopper::Output) { return "hopper::Output"; }
constexpr const char* type_name(StepKind) { return "StepKind"; }
constexpr const char* type_name(ScaleUse) { return "ScaleUse"; }
constexpr const char* type_name(Folded) { return "Folded"; }
constexpr const char* type_name(hopper::Decoding) { return "hopper::Decoding"; }
constexpr const char* type_name(hopper::Number) { return "hopper::Number"; }
constexpr const char* type_name(hopper::Formula) { return "hopper::Formula"; }
constexpr const char* type_name(hopper::ScaledBy) { return "hopper::ScaledBy"; }
constexpr const char* type_name(hopper::BlockFormat) { return "hopper::BlockFormat"; }
constexpr const char* type_name(hopper::RowOutput) { return "hopper::RowOutput"; }
constexpr const char* type_name(hopper::Unit) { return "hopper::Unit"; }

/// Enumerators are written as numbers: their order is part of the headers, which every compiled kernel's key covers.
class Initializers {
public:
    void field(const char* name, std::integral auto value) { add(name, fmt::format("{}", value)); }
    template <class Enumeration>
    void field(const char* name, Enumeration value) {
        add(name, fmt::format("tilewright::{}({})", type_name(value), static_cast<int>(value)));
    }
    template <class Fields>
    void group(const char* name, Fields fields) {
        std::string outer = std::exchange(text_, {});
        fields();
        outer.swap(text_);
        add(name, "{" + outer + "}");
    }
    const std::string& text() const { return text_; }

private:
    void add(const char* name, std::string_view value) {
        text_ += fmt::format("{}.{} = {}", text_.empty() ? "" : ", ", name, value);
    }

    std::string text_;
};

}  // namespace tilewright::launch
