#include "verify/choices.h"

namespace tilewright::verify {

const std::vector<Grouping>& all_groupings() {
    static const std::vector<Grouping> list(tilewright::all_groupings.begin(), tilewright::all_groupings.end());
    return list;
}

const std::vector<Layout>& all_layouts() {
    static const std::vector<Layout> list(tilewright::all_layouts.begin(), tilewright::all_layouts.end());
    return list;
}

const std::vector<Format>& all_outputs() {
    static const std::vector<Format> list{Format::bf16, Format::f16, Format::f32};
    return list;
}

const std::vector<Arithmetic>& all_arithmetics() {
    static const std::vector<Arithmetic> list(tilewright::all_arithmetics.begin(), tilewright::all_arithmetics.end());
    return list;
}

}  // namespace tilewright::verify
