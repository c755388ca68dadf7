#include "verify/ranked_sums.h"

#include <tilewright/error.h>

#include "formats/convert.h"
#include "formats/element.h"

namespace tilewright::verify {
namespace {

using check::MoeCase;

/// The choices of a layer's tokens, as numbers that can be taken away and given back.
class Choices {
public:
    Choices(const MoeCase& whole, const ExpertGroupOptions& options, int ranks)
        : ids_(whole.layer().routing.experts), experts_(options.experts), each_(options.experts / ranks) {
        for (std::int64_t i = 0; i < count(); ++i) given_.push_back(formats::load_integer(ids_.data, ids_.format, i));
    }
    ~Choices() {
        for (std::int64_t i = 0; i < count(); ++i) store(i, given_[static_cast<std::size_t>(i)]);
    }
    Choices(const Choices&) = delete;
    Choices& operator=(const Choices&) = delete;

    /// Leaves the choices of a rank's experts.
    void keep(std::size_t rank) const {
        for (std::int64_t i = 0; i < count(); ++i) store(i, is_of(i, rank) ? given_[static_cast<std::size_t>(i)] : -1);
    }
    bool has(std::int64_t token, std::size_t rank) const {
        const std::int64_t choices = ids_.shape[1];
        for (std::int64_t i = token * choices; i < (token + 1) * choices; ++i) {
            if (is_of(i, rank)) return true;
        }
        return false;
    }

private:
    std::int64_t count() const { return ids_.shape[0] * ids_.shape[1]; }
    bool is_of(std::int64_t index, std::size_t rank) const {
        const std::int64_t id = given_[static_cast<std::size_t>(index)];
        return id >= 0 && id < experts_ && id / each_ == static_cast<std::int64_t>(rank);
    }
    void store(std::int64_t index, std::int64_t id) const {
        if (ids_.format == Format::i64) {
            static_cast<std::int64_t*>(ids_.data)[index] = id;
        } else {
            static_cast<std::int32_t*>(ids_.data)[index] = static_cast<std::int32_t>(id);
        }
    }

    Tensor ids_;
    std::int64_t experts_, each_;
    std::vector<std::int64_t> given_{};
};

/// The layer without addend, with its result in f32.
class LayerOfSums {
public:
    LayerOfSums(MoeCase& whole, std::vector<float>& out)
        : whole_(whole), addend_(whole.layer().addend), out_(whole.layer().out) {
        Moe& layer = whole.layer();
        layer.addend = {};
        layer.out = row_major(out.data(), Format::f32, out_.shape);
    }
    ~LayerOfSums() {
        whole_.layer().addend = addend_;
        whole_.layer().out = out_;
    }
    LayerOfSums(const LayerOfSums&) = delete;
    LayerOfSums& operator=(const LayerOfSums&) = delete;

private:
    MoeCase& whole_;
    Tensor addend_, out_;
};

float rounded(float number, Format format) {
    if (format == Format::f32) return number;
    std::uint16_t code = 0;
    formats::encode(format, &number, 1, &code, formats::Overflow::propagate);
    formats::decode(format, &code, 1, &number);
    return number;
}

}  // namespace

std::vector<std::vector<float>> sums_of_ranks(MoeCase& whole, const ExpertGroupOptions& options,
                                              const std::vector<std::int64_t>& split, const RankedRun& how) {
    ExpertGroupOptions sends_rows = options;
    sends_rows.combine = RankSums::rows;
    SharedLayer shared(whole, sends_rows, split);
    const Choices choices(whole, options, shared.ranks());
    const Dims shape = whole.layer().out.shape;
    std::vector<std::vector<float>> sums(static_cast<std::size_t>(shared.ranks()));
    for (std::size_t rank = 0; rank < sums.size(); ++rank) {
        sums[rank].resize(static_cast<std::size_t>(shape[0] * shape[1]));
        const LayerOfSums layer(whole, sums[rank]);
        choices.keep(rank);
        if (const std::string errors = shared.run(how).errors; !errors.empty()) throw Error(errors);
    }
    return sums;
}

std::vector<std::byte> result_of_sums(MoeCase& whole, const ExpertGroupOptions& options,
                                      const std::vector<std::vector<float>>& sums) {
    const Choices choices(whole, options, static_cast<int>(sums.size()));
    whole.reset_output();
    const Tensor& out = whole.layer().out;
    const auto columns = static_cast<std::size_t>(out.shape[1]);
    std::vector<float> total(columns);
    for (std::int64_t token = 0; token < out.shape[0]; ++token) {
        const std::size_t first = static_cast<std::size_t>(token) * columns;
        for (std::size_t i = 0; i < columns; ++i) total[i] = whole.addend().empty() ? 0 : whole.addend()[first + i];
        for (std::size_t rank = 0; rank < sums.size(); ++rank) {
            if (!choices.has(token, rank)) continue;
            for (std::size_t i = 0; i < columns; ++i) total[i] += rounded(sums[rank][first + i], options.sums);
        }
        std::byte* const to = static_cast<std::byte*>(out.data) + token * out.strides[0] * bits(out.format) / 8;
        formats::encode(out.format, total.data(), out.shape[1], to, formats::Overflow::propagate);
    }
    return whole.output();
}

}  // namespace tilewright::verify
