#include "api/linear_check.h"

#include <string>
#include <utility>

#include "api/shown.h"
#include "formats/recipe_of.h"

namespace tilewright {
namespace {

bool is_real(Format format) { return format == Format::f32 || format == Format::bf16 || format == Format::f16; }

/// The checks that both directions share. Formats and memory of operands are left to the quantizers and products.
class LinearFindings {
public:
    LinearFindings(const Tensor& source, const LinearOptions& options) : device_(source.device), options_(options) {}

    void add(Finding finding) { list_.push_back(std::move(finding)); }
    std::vector<Finding> take() { return std::move(list_); }

    /// A matrix of real numbers, on the device of the call. False: its shape is of no use for further checks.
    bool matrix(const char* operand, const Tensor& tensor, const std::string& sizes) {
        if (tensor.shape.rank() != 2 || tensor.shape[0] < 0 || tensor.shape[1] < 0) {
            add({operand, shown(tensor), sizes, ""});
            return false;
        }
        if (!is_real(tensor.format)) add({operand, std::string(name(tensor.format)), "f32, bf16 or f16", ""});
        device(operand, tensor);
        return true;
    }

    void shape(const std::string& operand, const Tensor& tensor, const Dims& expected) {
        if (tensor.shape != expected) add({operand, shown(tensor), to_string(expected), ""});
        device(operand, tensor);
    }

    /// A result whose rows may be cleared: those of tokens of no group.
    void rows(const std::string& operand, const Tensor& tensor) {
        if (tensor.shape.rank() != 2 || tensor.strides.rank() != 2) return;  // named by `shape`, or by the product
        if (tensor.shape[1] <= 1 || tensor.strides[1] == 1) return;
        add({operand, "strides " + to_string(tensor.strides), "adjacent columns, because there are ends", ""});
    }

    void device(const std::string& operand, const Tensor& tensor) {
        if (tensor.device == device_) return;
        add({operand, "memory of another device", "memory of the device of the tokens", "copy it there"});
    }

    void ends(const Tensor& ends, std::int64_t groups) {
        if (!ends.given()) return;
        shape("ends", ends, {groups});
        if (groups == 0) add({"ends", "[0]", "at least one group", ""});
        if (ends.format != Format::i32 && ends.format != Format::i64) {
            add({"ends", std::string(name(ends.format)), "i32 or i64", ""});
        }
    }

    void granularity(const std::string& operand, const Operand& given, const OperandRecipe& expected) {
        if (given.granularity == expected.granularity && given.values.format == expected.values) return;
        add({operand, tilewright::name(recipe_of(given)), tilewright::name(expected) + ", because of the recipe", ""});
    }

    void options() {
        const bool whole = options_.recipe.gradients.granularity == Granularity::row ||
                           options_.recipe.gradients.granularity == Granularity::tensor;
        if (options_.accumulation == Accumulation::promoted || (whole && !options_.recipe.folds())) return;
        add({"accumulation", "unpromoted", "promoted, because scales vary along k",
             "the recipes row and tensor can do without promotion"});
    }

private:
    DeviceId device_;
    const LinearOptions& options_;
    std::vector<Finding> list_{};
};

/// The weights [N, K] or [groups, N, K]. False: their shape is of no use for further checks.
bool check_weights(LinearFindings& findings, const Tensor& w, const Tensor& ends) {
    if (w.shape.rank() == (ends.given() ? 3 : 2)) return true;
    findings.add({"w.values", shown(w), ends.given() ? "[groups, N, K], because there are ends" : "[N, K]",
                  ends.given() ? "" : "give ends with the weights of groups"});
    return false;
}

void check_kept(LinearFindings& findings, const LinearOptions& options, const Operand& kept, const Dims& tokens,
                std::int64_t groups) {
    const OperandShape shape = kept_shape(options.recipe, tokens[0], tokens[1], groups);
    findings.granularity("kept", kept, options.recipe.columns.value_or(options.recipe.activations));
    findings.shape("kept.values", kept.values, shape.values);
    findings.shape("kept.scales", kept.scales, shape.scales);
}

}  // namespace

std::vector<Finding> check(const LinearForward& call) {
    LinearFindings findings(call.x, call.options);
    findings.options();
    if (!findings.matrix("x", call.x, "[tokens, K]") || !check_weights(findings, call.w.values, call.ends)) {
        return findings.take();
    }
    findings.granularity("w", call.w, call.options.recipe.weights);
    const Dims& w = call.w.values.shape;
    const int n = w.rank() - 2;
    if (w[n + 1] != call.x.shape[1]) {
        findings.add(
            {"x", shown(call.x), "[tokens, " + std::to_string(w[n + 1]) + "], because w has that many columns", ""});
        return findings.take();
    }
    const std::int64_t groups = call.ends.given() ? w[0] : 0;
    findings.device("w.values", call.w.values);
    if (call.w_real.given()) findings.shape("w_real", call.w_real, w);
    findings.ends(call.ends, groups);
    findings.shape("y", call.y, {call.x.shape[0], w[n]});
    if (groups > 0) findings.rows("y", call.y);
    if (call.bias.given()) findings.shape("bias", call.bias, groups > 0 ? Dims{groups, w[n]} : Dims{w[n]});
    if (call.kept.values.given()) check_kept(findings, call.options, call.kept, call.x.shape, groups);
    return findings.take();
}

std::vector<Finding> check(const LinearBackward& call) {
    LinearFindings findings(call.dy, call.options);
    const LinearRecipe& recipe = call.options.recipe;
    findings.options();
    if (!findings.matrix("dy", call.dy, "[tokens, N]")) return findings.take();
    const std::int64_t tokens = call.dy.shape[0], n = call.dy.shape[1];
    const std::int64_t groups = call.ends.given() && call.ends.shape.rank() == 1 ? call.ends.shape[0] : 0;
    findings.ends(call.ends, groups);
    if (!call.dx.given() && !call.dw.given()) {
        findings.add({"dx", "nothing", "dx, dw or both", "nothing would be written"});
    }
    if (call.dx.given()) {
        if (!findings.matrix("dx", call.dx, "[tokens, K]") || !check_weights(findings, call.w.values, call.ends)) {
            return findings.take();
        }
        const std::int64_t k = call.dx.shape[1];
        const Dims matrix = recipe.backward_weights ? Dims{k, n} : Dims{n, k};
        findings.shape("dx", call.dx, {tokens, k});
        if (groups > 0) findings.rows("dx", call.dx);
        findings.shape("w.values", call.w.values, groups > 0 ? Dims{groups, matrix[0], matrix[1]} : matrix);
        findings.granularity("w", call.w, recipe.backward_weights.value_or(recipe.weights));
    }
    if (call.dw.given()) {
        if (call.dw.shape.rank() != 3) {
            findings.add({"dw", shown(call.dw), "[groups, N, K]", ""});
            return findings.take();
        }
        const std::int64_t k = call.dw.shape[2];
        findings.shape("dw", call.dw, {call.ends.given() ? groups : 1, n, k});
        check_kept(findings, call.options, call.kept, {tokens, k}, groups);
        if (call.dx.given() && call.dx.shape[1] != k) {
            findings.add({"dx", shown(call.dx), "[tokens, " + std::to_string(k) + "], as many columns as dw", ""});
        }
    }
    return findings.take();
}

}  // namespace tilewright
