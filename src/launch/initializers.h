// Template parameters of kernels as C++ source: designated initializers, from the fields that a visitor receives.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

#include "hopper/moe/spec.h"
#include "hopper/quantize/quantizer.h"
#include "hopper/tile/tile.h"

namespace tilewright::launch {

constexpr const char* type_name(hopper::Storage) { return "Storage"; }
constexpr const char* type_name(hopper::Decoding) { return "Decoding"; }
constexpr const char* type_name(hopper::Scaling) { return "Scaling"; }
constexpr const char* type_name(hopper::Major) { return "Major"; }
constexpr const char* type_name(hopper::ClusterUse) { return "ClusterUse"; }
constexpr const char* type_name(hopper::Family) { return "Family"; }
constexpr const char* type_name(hopper::Variant) { return "Variant"; }
constexpr const char* type_name(hopper::Number) { return "Number"; }
constexpr const char* type_name(hopper::Formula) { return "Formula"; }
constexpr const char* type_name(hopper::ScaledBy) { return "ScaledBy"; }
constexpr const char* type_name(hopper::BlockFormat) { return "BlockFormat"; }
constexpr const char* type_name(hopper::RowOutput) { return "RowOutput"; }
constexpr const char* type_name(hopper::Unit) { return "Unit"; }

/// Enumerators are written as numbers: their order is part of the headers, which every compiled kernel's key covers.
class Initializers {
public:
    void field(const char* name, std::integral auto value) { add(name, fmt::format("{}", value)); }
    template <class Enumeration>
    void field(const char* name, Enumeration value) {
        add(name, fmt::format("tilewright::hopper::{}({})", type_name(value), static_cast<int>(value)));
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
