#include "verify/choices.h"

namespace tilewright::verify {

const std::vector<Grouping>& all_groupings() {
    static const std::vector<Grouping> list{Grouping::dense,
                                            Grouping::batched,
                                            Grouping::m_grouped_indices,
                                            Grouping::m_grouped_offsets,
                                            Grouping::m_grouped_aligned_offsets,
                                            Grouping::m_grouped_masked,
                                            Grouping::k_grouped};
    return list;
}

const std::vector<Layout>& all_layouts() {
    static const std::vector<Layout> list{Layout::nt, Layout::nn, Layout::tn, Layout::tt};
    return list;
}

const std::vector<Format>& all_outputs() {
    static const std::vector<Format> list{Format::bf16, Format::f16, Format::f32};
    return list;
}

const std::vector<Arithmetic>& all_arithmetics() {
    static const std::vector<Arithmetic> list{Arithmetic::fast, Arithmetic::bit_exact};
    return list;
}

}  // namespace tilewright::verify
