// Every case of tests/primitives on the GPU: it writes the same bits there as on the emulator.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>

#include "cuda/compiler.h"
#include "cuda/tensor_map.h"
#include "gpu/gpu_case.h"
#include "measure/device.h"
#include "primitives/cases.h"

namespace tilewright::primitives {
namespace {

/// One block of the device for each tensor of a case, and the kernel's arguments.
class OnGpu {
public:
    explicit OnGpu(const PrimitiveCase& primitive)
        : a_(upload(primitive.a.bytes)),
          b_(upload(primitive.b.bytes)),
          d_(upload(primitive.d.bytes)),
          in_(upload(std::as_bytes(std::span(primitive.in)))),
          out_(upload(std::vector<std::byte>(primitive.out * sizeof(float), std::byte{0xFF}))),
          words_(upload(std::vector<std::byte>(primitive.words * sizeof(hopper::u64), std::byte{0xFF}))),
          primitive_(primitive) {
        encode(primitive.a, *a_, "a", arguments_.a);
        encode(primitive.b, *b_, "b", arguments_.b);
        encode(primitive.d, *d_, "d", arguments_.d);
        arguments_.in = reinterpret_cast<const float*>(in_->data());
        arguments_.out = reinterpret_cast<float*>(out_->data());
        arguments_.words = reinterpret_cast<hopper::u64*>(words_->data());
        arguments_.count = primitive.count;
        arguments_.x = primitive.x;
        arguments_.y = primitive.y;
    }

    PrimitiveResult run(cuda::KernelHandle kernel) {
        cuda::LaunchAttribute cluster{.id = cuda::LaunchAttribute::cluster_dimension,
                                      .x = static_cast<unsigned>(primitive_.blocks)};
        const cuda::LaunchConfig config{.grid = {static_cast<unsigned>(primitive_.blocks), 1, 1},
                                        .block = {static_cast<unsigned>(primitive_.threads), 1, 1},
                                        .shared_bytes = sizeof(PrimitiveShared),
                                        .attributes = &cluster,
                                        .attribute_count = 1};
        void* parameters[] = {&arguments_};
        const cuda::Driver& driver = cuda::driver();
        driver.require(driver.call.launch(&config, kernel, parameters, nullptr), "cuLaunchKernelEx", 0);
        driver.require(driver.call.context_synchronize(), "cuCtxSynchronize", 0);
        return {.d = bytes_of(*d_, primitive_.d.bytes.size()),
                .out = bytes_of(*out_, primitive_.out * sizeof(float)),
                .words = bytes_of(*words_, primitive_.words * sizeof(hopper::u64))};
    }

private:
    static std::unique_ptr<measure::Buffer> upload(std::span<const std::byte> bytes) {
        auto memory = std::make_unique<measure::Buffer>(std::max<std::size_t>(bytes.size(), 16));
        memory->upload(bytes.data(), bytes.size());
        return memory;
    }
    static std::vector<std::byte> bytes_of(const measure::Buffer& memory, std::size_t count) {
        std::vector<std::byte> bytes(count);
        memory.download(bytes.data(), count);
        return bytes;
    }
    static void encode(const Boxed& boxed, const measure::Buffer& memory, const char* name, hopper::TensorMap& map) {
        if (boxed.bytes.empty()) return;
        hopper::TensorMapDescription description = boxed.map;
        description.base = memory.data();
        cuda::encode(cuda::driver(), 0, description, name, map);
    }

    std::unique_ptr<measure::Buffer> a_, b_, d_, in_, out_, words_;
    const PrimitiveCase& primitive_;
    PrimitiveArguments arguments_{};
};

/// Loaded for the rest of the process.
cuda::KernelHandle load(const cuda::Compiler& compiler, const std::string& expression) {
    const cuda::CompiledKernel compiled = compiler.compile({.text = kernels_text, .expression = expression}).kernel;
    const cuda::Driver& driver = cuda::driver();
    cuda::LibraryHandle library = nullptr;
    cuda::KernelHandle kernel = nullptr;
    driver.require(driver.call.library_load(&library, compiled.cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                   "cuLibraryLoadData", 0);
    driver.require(driver.call.library_kernel(&kernel, library, compiled.name.c_str()), "cuLibraryGetKernel", 0);
    return kernel;
}

/// Which 32-bit words of a result differ, the first few of them.
std::string difference(const std::vector<std::byte>& gpu, const std::vector<std::byte>& emulator) {
    std::string text;
    int differ = 0;
    for (std::size_t i = 0; i + 4 <= gpu.size(); i += 4) {
        std::uint32_t ours = 0, theirs = 0;
        std::memcpy(&ours, gpu.data() + i, 4);
        std::memcpy(&theirs, emulator.data() + i, 4);
        if (ours == theirs) continue;
        if (++differ <= 4) text += fmt::format(" word {}: {:#010x} for {:#010x};", i / 4, ours, theirs);
    }
    return differ == 0 ? "" : fmt::format("{} words differ from the emulator's:{}", differ, text);
}

/// A test for each case: a kernel that fails takes the process's context with it.
class GpuPrimitives : public testing::TestWithParam<PrimitiveCase> {};

TEST_P(GpuPrimitives, WriteTheEmulatorsBits) {
    const test::CurrentDevice device;
    const cuda::Compiler compiler(cuda::nvrtc_candidates());
    const PrimitiveCase& each = GetParam();
    const PrimitiveResult gpu = OnGpu(each).run(load(compiler, each.expression));
    const PrimitiveResult emulator = run_on_emulator(each, emulator::Timing::late);
    EXPECT_EQ(difference(gpu.d, emulator.d), "") << "D";
    EXPECT_EQ(difference(gpu.out, emulator.out), "") << "numbers";
    EXPECT_EQ(difference(gpu.words, emulator.words), "") << "words";
}

TEST(GpuPrimitivesTimeOut, NamesTheBarrier) {
    const test::CurrentDevice device;
    const cuda::Compiler compiler(cuda::nvrtc_candidates());
    const PrimitiveCase vain = time_out_case();
    const PrimitiveResult gpu = OnGpu(vain).run(load(compiler, vain.expression));
    std::uint64_t budget = 0;
    std::memcpy(&budget, gpu.words.data(), sizeof budget);
    const hopper::Timeout timeout{hopper::Timeout::pack(0, 0, static_cast<int>(budget))};
    EXPECT_EQ(hopper::name_of(timeout.barrier()), std::string("work_empty"));
}

/// "stage_and_store at -8, -3" without what a test's name cannot hold.
std::string test_name(const testing::TestParamInfo<PrimitiveCase>& info) {
    std::string name;
    for (const char letter : info.param.name) {
        if (std::isalnum(static_cast<unsigned char>(letter)) != 0) name += letter;
        if (letter == ' ') name += '_';
        if (letter == '-') name += "minus";
    }
    return name;
}

INSTANTIATE_TEST_SUITE_P(Each, GpuPrimitives, testing::ValuesIn(cases()), test_name);

}  // namespace
}  // namespace tilewright::primitives
