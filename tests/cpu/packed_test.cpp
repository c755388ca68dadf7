// Packed weights give the bits of the weights that they were packed from, on the CPU, in every grouping.
#include "check/case.h"
#include "formats/recipe_of.h"

#include <tilewright/quantize.h>
#include <tilewright/run.h>

#include <gtest/gtest.h>

namespace tilewright {
namespace {

struct Spec {
    const char* recipe;
    Grouping grouping;
    std::int64_t k;
};

void expect_same_bits(const Spec& spec, Arithmetic arithmetic) {
    check::Case test_case({.grouping = spec.grouping,
                           .recipe = *parse_recipe(spec.recipe),
                           .output = Format::f32,
                           .m = 37,
                           .n = 70,
                           .k = spec.k,
                           .groups = 3,
                           .arithmetic = arithmetic});
    run(test_case.problem());
    const std::vector<std::byte> expected = test_case.output();
    const OperandRecipe a = recipe_of(test_case.problem().a);
    Operand& b = test_case.problem().b;
    const OwnedPackedWeights packed = pack_weights(b, packed_for(a));
    b = {.packed = packed};
    test_case.reset_output();
    run(test_case.problem());
    EXPECT_EQ(test_case.output(), expected) << spec.recipe << ", " << name(spec.grouping);
    EXPECT_EQ(test_case.damage(), "");
}

TEST(Packed, SameBitsAsTheWeights) {
    for (const Arithmetic arithmetic : {Arithmetic::fast, Arithmetic::bit_exact}) {
        for (const Spec& spec : {Spec{"1x128:mxfp4", Grouping::dense, 192}, Spec{"bf16:mxfp4", Grouping::batched, 96},
                                 Spec{"bf16:nvfp4", Grouping::m_grouped_indices, 208},
                                 Spec{"mxfp8:mxfp4", Grouping::m_grouped_masked, 256},
                                 Spec{"1x128:nvfp4", Grouping::m_grouped_offsets, 128},
                                 Spec{"mxfp4:mxfp4", Grouping::m_grouped_aligned_offsets, 160}}) {
            expect_same_bits(spec, arithmetic);
        }
    }
}

}  // namespace
}  // namespace tilewright
