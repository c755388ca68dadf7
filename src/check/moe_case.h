// A layer of experts that owns its memory: a description becomes a `Moe` with random numbers. Memory around each tensor
// and everything that a call must not read is poisoned, as in case.h.
#pragma once

#include <tilewright/moe.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "check/memory.h"

namespace tilewright::check {

enum class MoeForm : std::uint8_t { tokens, offsets, aligned, masked };
inline constexpr std::array all_moe_forms{MoeForm::tokens, MoeForm::offsets, MoeForm::aligned, MoeForm::masked};
std::string_view name(MoeForm form);

/// Which experts the tokens choose; in the other forms, how many rows the groups have.
enum class MoeChoices : std::uint8_t {
    random,
    one_expert,  // all choose one expert, also several times
    none,        // -1
    wild,        // half of the numbers are any number at all
};
inline constexpr std::array all_moe_choices{MoeChoices::random, MoeChoices::one_expert, MoeChoices::none,
                                            MoeChoices::wild};
std::string_view name(MoeChoices choices);

struct MoeSpec {
    MoeForm form = MoeForm::tokens;
    Recipe recipe{};  // of activations and of both weights
    bool round_up = false;
    GatedUnit unit{};
    WeightsAt weights_at = WeightsAt::combine;
    std::int64_t tokens = 20;  // offsets, aligned: rows; masked: rows of each group that there is room for
    std::int64_t choices = 2;
    std::int64_t experts = 5;  // local
    std::int64_t hidden = 144;
    std::int64_t inner = 80;
    int shared = 0;
    MoeChoices chosen = MoeChoices::random;
    Format x = Format::bf16;
    bool quantized = false;  // x as values and scales
    bool packed = false;     // FP4 weights
    Format indices = Format::i32;
    bool with_weights = true;
    Format weights = Format::f32;  // in the other forms f32
    bool with_map = false;
    bool with_bias = false;
    Format bias = Format::f32;
    bool with_addend = false;
    Format addend = Format::bf16;
    bool in_place = false;  // the addend is the memory of out
    Format out = Format::bf16;
    std::int64_t gap = 0;  // elements after each row of x, addend and out
    std::int64_t chunk = 16384;
    Arithmetic arithmetic = Arithmetic::fast;
    Reproducibility reproducibility = Reproducibility::repeatable;
    std::uint64_t seed = 1;
};

/// One line for failure messages.
std::string describe(const MoeSpec& spec);

/// Every recipe of activations with every recipe of weights that a layer takes.
std::vector<Recipe> moe_recipes();

/// The tensors of a layer that are given, with their names; packed weights are not among them. The last is `out`.
std::vector<std::pair<std::string, Tensor*>> tensors_of(Moe& layer);

class MoeCase {
public:
    explicit MoeCase(const MoeSpec& spec);

    const MoeSpec& spec() const { return spec_; }
    const Moe& layer() const { return layer_; }
    /// To run the same data with other options; sizes and pointers are to stay.
    Moe& layer() { return layer_; }

    /// `out` as it was before the first run: 0xFF everywhere, or the addend.
    void reset_output();
    /// All bytes from out's first element to its last, gaps included.
    std::vector<std::byte> output() const;
    void set_output(const std::vector<std::byte>& bytes);
    /// The numbers of the addend before the first run, in f32; empty without one.
    const std::vector<float>& addend() const { return addend_; }
    /// Whether a call writes each row of out.
    std::vector<char> written_rows() const;

    /// Memory that was written but must not be; empty if none was.
    std::string damage() const;

private:
    struct Input {
        std::string name;
        Memory memory;
        std::uint64_t hash = 0;
    };

    Tensor placed(const std::string& name, const Tensor& tensor, std::int64_t gap = 0);
    Tensor numbers(const std::string& name, Format format, const Dims& shape, double scale, std::int64_t gap = 0);
    void place_input();
    void poison_rows();
    void place_routing();
    void place_groups();
    void place_weights();
    Operand weights(const std::string& name, const Dims& shape, OwnedPackedWeights& packed);
    void place_output();

    MoeSpec spec_;
    Moe layer_{};
    std::vector<Input> inputs_;
    OwnedPackedWeights packed_up_, packed_down_;
    std::vector<float> addend_;
    Memory output_;
    std::vector<std::byte> pristine_;  // all of output_, guard bands included
};

}  // namespace tilewright::check
