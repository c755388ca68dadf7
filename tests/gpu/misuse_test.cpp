// Calls that are wrong end in an error that says so, and leave D and the GPU as they were.
#include <gtest/gtest.h>
#include <tilewright/error.h>
#include <tilewright/run.h>

#include <functional>

#include "gpu/gpu_case.h"
#include "gpu/recipes.h"

namespace tilewright::test {
namespace {

struct Misuse {
    const char* mistake;
    std::function<void(Problem&)> make;
    const char* complaint;
};

void shift(Tensor& tensor, std::ptrdiff_t bytes) { tensor.data = static_cast<std::byte*>(tensor.data) + bytes; }

const std::vector<Misuse>& misuses() {
    static const std::vector<Misuse> list{
        {"a in host memory", [](Problem& p) { p.a.values.device = {}; }, "a.values: got host memory"},
        {"d in host memory", [](Problem& p) { p.d.device = {}; }, "host memory for the cpu backend"},
        {"another device", [](Problem& p) { p.b.scales.device.index = 1; }, "b.scales: got memory of cuda:1"},
        {"a at 8 modulo 16", [](Problem& p) { shift(p.a.values, 8); }, "a.values: got an address that is 8 modulo 16"},
        {"rows of b 8 bytes off", [](Problem& p) { p.b.values.strides[0] += 8; }, "b.values.strides:"},
        {"no scales", [](Problem& p) { p.a.scales = {}; }, "a.scales: got nothing"},
        {"d over a", [](Problem& p) { p.d.data = p.a.values.data; }, "d: got memory that overlaps a.values"},
        {"a transposed layout", [](Problem& p) { p.layout = Layout::nn; }, "b.values:"},
        {"a device that is not there",
         [](Problem& p) {
             for (Tensor* t : {&p.a.values, &p.a.scales, &p.b.values, &p.b.scales, &p.d}) t->device.index = 63;
         },
         "cuda:63: no such device"},
    };
    return list;
}

TEST(GpuMisuse, EachMistakeIsNamedAndNothingIsWritten) {
    const CurrentDevice device;
    const GpuCase gpu({.recipe = recipe_of("1x128:128x128"), .m = 100, .n = 128, .k = 256});
    const std::vector<std::byte> before = gpu.output();
    for (const Misuse& misuse : misuses()) {
        Problem p = gpu.problem();
        misuse.make(p);
        try {
            run(p);
            ADD_FAILURE() << misuse.mistake << ": no error";
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find(misuse.complaint), std::string::npos)
                << misuse.mistake << ": " << error.what();
        }
    }
    cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", 0);
    EXPECT_EQ(gpu.output(), before);
    run(gpu.problem());
    cuda::driver().require(cuda::driver().call.context_synchronize(), "cuCtxSynchronize", 0);
    EXPECT_EQ(gpu.difference(), "");
}

}  // namespace
}  // namespace tilewright::test
