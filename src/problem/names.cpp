// The words for the parts of a problem, as the command line, Python and error messages spell them.
#include <tilewright/problem.h>

namespace tilewright {

std::string_view name(Layout layout) {
    switch (layout) {
        case Layout::nt: return "nt";
        case Layout::nn: return "nn";
        case Layout::tn: return "tn";
        case Layout::tt: return "tt";
    }
    return "unknown layout";
}

std::string_view name(Grouping grouping) {
    switch (grouping) {
        case Grouping::dense: return "dense";
        case Grouping::batched: return "batched";
        case Grouping::m_grouped_indices: return "m_grouped_indices";
        case Grouping::m_grouped_offsets: return "m_grouped_offsets";
        case Grouping::m_grouped_aligned_offsets: return "m_grouped_aligned_offsets";
        case Grouping::m_grouped_masked: return "m_grouped_masked";
        case Grouping::k_grouped: return "k_grouped";
        case Grouping::k_grouped_aligned_offsets: return "k_grouped_aligned_offsets";
        case Grouping::k_grouped_flat: return "k_grouped_flat";
    }
    return "unknown grouping";
}

std::string_view name(Accumulation accumulation) {
    return accumulation == Accumulation::promoted ? "promoted" : "unpromoted";
}

std::string_view name(Arithmetic arithmetic) { return arithmetic == Arithmetic::fast ? "fast" : "bit_exact"; }

std::string_view name(Reproducibility reproducibility) {
    return reproducibility == Reproducibility::repeatable ? "repeatable" : "invariant";
}

std::string_view name(Backend backend) {
    switch (backend) {
        case Backend::automatic: return "automatic";
        case Backend::cpu: return "cpu";
        case Backend::hopper: return "hopper";
    }
    return "unknown backend";
}

}  // namespace tilewright
