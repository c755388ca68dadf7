// cuBLASLt's grouped product, of which sizes and addresses are arrays on the GPU.
#include <fmt/format.h>
#include <tilewright/error.h>

#include <cstring>
#include <utility>

#include "base/math.h"
#include "measure/blas_lt.h"
#include "measure/blas_lt_library.h"

namespace tilewright::measure {
namespace {

constexpr const char* create_layout = "cublasLtGroupedMatrixLayoutCreate";

using Pointer = const void*;

/// Arrays with an entry for each group. cuBLASLt requires arrays of pointers at multiples of 16 bytes.
class GroupArrays {
public:
    explicit GroupArrays(std::vector<BlasGroup> groups) : groups_(std::move(groups)) {}

    /// A size of each group as int32; returns where they will be.
    std::size_t add(std::int64_t BlasGroup::*size) {
        return add_each<std::int32_t>([=](const BlasGroup& group) { return static_cast<std::int32_t>(group.*size); });
    }
    /// The result of `of` for each group.
    template <typename Of>
    std::size_t add_pointers(const Of& of) {
        return add_each<Pointer>(of);
    }
    void upload() {
        buffer_ = Buffer(bytes_.size());
        buffer_.upload(bytes_.data(), bytes_.size());
    }
    std::byte* at(std::size_t begin) const { return buffer_.data() + begin; }

private:
    template <typename Entry, typename Of>
    std::size_t add_each(const Of& of) {
        const std::size_t begin = round_up<std::size_t>(bytes_.size(), 16);
        bytes_.resize(begin + groups_.size() * sizeof(Entry));
        for (std::size_t i = 0; i < groups_.size(); ++i) {
            const Entry entry = of(groups_[i]);
            std::memcpy(bytes_.data() + begin + i * sizeof(Entry), static_cast<const void*>(&entry), sizeof(Entry));
        }
        return begin;
    }

    std::vector<BlasGroup> groups_;
    std::vector<std::byte> bytes_;
    Buffer buffer_;
};

std::int64_t mean(const std::vector<BlasGroup>& groups, std::int64_t BlasGroup::*size) {
    std::int64_t sum = 0;
    for (const BlasGroup& group : groups) sum += group.*size;
    return ceil_div(sum, static_cast<std::int64_t>(groups.size()));
}

/// Column-major as in a product of one group: cuBLASLt's A is our B, its D our D transposed.
class GroupsPlan : public BlasPlan {
public:
    explicit GroupsPlan(const BlasGroups& product) : arrays_(product.groups) {
        const std::size_t m = arrays_.add(&BlasGroup::m);
        const std::size_t n = arrays_.add(&BlasGroup::n);
        const std::size_t k = arrays_.add(&BlasGroup::k);
        const std::size_t pitch_of_a = arrays_.add(&BlasGroup::pitch_of_a);
        const std::size_t pitch_of_b = arrays_.add(&BlasGroup::pitch_of_b);
        a_at_ = arrays_.add_pointers([](const BlasGroup& group) { return group.b; });
        b_at_ = arrays_.add_pointers([](const BlasGroup& group) { return group.a; });
        d_at_ = arrays_.add_pointers([](const BlasGroup& group) { return group.d; });
        const std::size_t a_scales = arrays_.add_pointers([&](const BlasGroup&) { return product.b_scale; });
        const std::size_t b_scales = arrays_.add_pointers([&](const BlasGroup&) { return product.a_scale; });
        arrays_.upload();

        const int type = product.values == Format::bf16 ? lt::type_bf16 : lt::type_e4m3;
        const auto count = static_cast<int>(product.groups.size());
        a_ = layout(type, count, k, n, pitch_of_b);
        b_ = layout(type, count, k, m, pitch_of_a);
        d_ = layout(lt::type_bf16, count, n, m, n);
        if (product.values == Format::e4m3) {
            matmul_.set(lt::attribute_a_scale_mode, lt::scale_of_group);
            matmul_.set(lt::attribute_b_scale_mode, lt::scale_of_group);
            matmul_.set(lt::attribute_a_scale_pointer, arrays_.at(a_scales));
            matmul_.set(lt::attribute_b_scale_pointer, arrays_.at(b_scales));
            matmul_.set(lt::attribute_fast_accumulation, std::int8_t{1});
        }
        matmul_.choose(a_.get(), b_.get(), d_.get(), "this grouped product",
                       {{lt::preference_average_rows, mean(product.groups, &BlasGroup::n)},
                        {lt::preference_average_columns, mean(product.groups, &BlasGroup::m)},
                        {lt::preference_average_k, mean(product.groups, &BlasGroup::k)}});
    }

    void enqueue(cuda::StreamHandle stream) override {
        matmul_.enqueue(arrays_.at(a_at_), arrays_.at(b_at_), arrays_.at(d_at_), stream);
    }

private:
    /// Where the sizes are on the GPU.
    lt::OwnedLayout layout(int type, int count, std::size_t rows, std::size_t columns, std::size_t pitch) const {
        lt::Layout created = nullptr;
        const auto at = [&](std::size_t begin) -> Pointer { return arrays_.at(begin); };
        lt::library().call(create_layout, &created, type, count, at(rows), at(columns), at(pitch));
        return lt::OwnedLayout(created);
    }

    GroupArrays arrays_;
    std::size_t a_at_ = 0;
    std::size_t b_at_ = 0;
    std::size_t d_at_ = 0;
    lt::OwnedLayout a_;
    lt::OwnedLayout b_;
    lt::OwnedLayout d_;
    lt::Matmul matmul_;
};

}  // namespace

void require_grouped_blas() {
    using Create = int(lt::Layout*, int, int, Pointer, Pointer, Pointer);
    if (lt::library().function<Create>(create_layout) != nullptr) return;
    throw Error(fmt::format(
        "cuBLASLt {} has no grouped product with sizes on the GPU; 13.2 has one, for Hopper 13.4 (bf16) and "
        "13.5 (e4m3 per tensor): pip install -U nvidia-cublas",
        blas_lt_version()));
}

std::unique_ptr<BlasPlan> plan_blas(const BlasGroups& product) {
    require_grouped_blas();
    return std::make_unique<GroupsPlan>(product);
}

}  // namespace tilewright::measure
