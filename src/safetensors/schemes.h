// Which tensors belong together by their names, and what their shapes and dtypes then mean.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "safetensors/quantization_config.h"
#include "safetensors/stored_matrix.h"

namespace tilewright::safetensors {

using Named = Checkpoint::Tensor;

/// The result of matching a scheme's names: a matrix, or the reason why it cannot be read.
struct Candidate {
    StoredMatrix matrix{};
    std::optional<Finding> finding{};
};

/// The tensors of a scheme, and its rules beyond their shapes.
struct SchemeTensors {
    std::string name{};  // of the matrix
    std::string scheme{};
    const Named* values = nullptr;
    const Named* scales = nullptr;
    const Named* tensor_scale = nullptr;
    std::vector<std::uint64_t> shape{};  // The shape of the values; for gpt-oss [g, n, k / 2] of its four sizes.
    bool rows_are_n = false;             // By the scheme's definition, whatever config.json contains.
    bool divides = false;                // The tensor scale is a divisor.
    bool squares = false;                // Scales are for 128 x 128 where nothing else is said.
};

struct Schemes {
    const Checkpoint& checkpoint;
    const QuantizationConfig& config;

    /// The matrix that begins with this tensor; nothing for all others.
    std::optional<Candidate> candidate(const std::string& name, const Named& values) const;

private:
    std::optional<Candidate> gpt_oss(const std::string& name, const Named& values) const;
    std::optional<Candidate> compressed_tensors(const std::string& name, const Named& values) const;
    std::optional<Candidate> tilewright_names(const std::string& name, const Named& values) const;
    std::optional<Candidate> packed(const std::string& name, const Named& values) const;
    std::optional<Candidate> named_scales(const std::string& name, const Named& values) const;
    std::optional<Finding> zero_point(const StoredMatrix& matrix) const;
};

/// From shapes and dtypes (scaled_matrix.cpp).
Candidate scaled_matrix(const SchemeTensors& tensors, const QuantizationConfig& config);

/// Weights of integers, of whatever scheme (integer_weights.cpp).
std::optional<Candidate> integer_weights(const Checkpoint& checkpoint, const QuantizationConfig& config,
                                         const std::string& name, const Named& values);

bool is(const Named* tensor, const char* dtype);
bool is_fp4_bytes(const Named& tensor);
bool is_fp8_codes(const Named& tensor);  // fnuz too
bool is_real(const Named* tensor);
/// "F8_E8M0 [64, 3]"
std::string described(const Named& tensor);
/// The name without `suffix`; nothing where it ends otherwise.
std::optional<std::string> stem(const std::string& name, const std::string& suffix);
/// Sets n, k and groups of a matrix [n, k] or [g, n, k]; false for other shapes and for no elements.
bool set_shape(StoredMatrix& matrix, const std::vector<std::uint64_t>& shape);

}  // namespace tilewright::safetensors
