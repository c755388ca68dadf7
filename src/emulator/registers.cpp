// setmaxnreg: warpgroups that give registers to others.
#include "emulator/machine.h"

#include <fmt/format.h>

namespace tilewright::emulator {
namespace {

class WaitForRegisters final : public Wait {
public:
    WaitForRegisters(const Block& block, const Warp& warp, int registers)
        : block_(block), warp_(warp), registers_(registers) {}
    int needed() const { return (registers_ - warp_.registers) * hopper::warp_threads; }
    bool ready() override { return needed() <= block_.free_registers; }
    std::string what() const override {
        return fmt::format("registers_take<{}>: {} registers are needed, {} are free", registers_, needed(),
                           block_.free_registers);
    }

private:
    const Block& block_;
    const Warp& warp_;
    int registers_;
};

/// A warp's call of setmaxnreg. The calls of a warpgroup must agree.
void synchronise_for_registers(const char* primitive, int registers) {
    const Thread& thread = me();
    synchronise(thread.own_warp().sync_point, primitive, registers, hopper::warp_threads, false);
    if (thread.lane() != 0) return;
    if (thread.index / hopper::warpgroup_threads >= static_cast<int>(thread.block->warpgroups.size())) {
        fail(fmt::format("{}: not in a warpgroup of 128 threads", primitive));
    }
    Warpgroup& group = thread.own_warpgroup();
    if (group.warps_called != 0 && group.registers_called != registers) {
        fail(fmt::format("{}<{}> while another warp of the warpgroup calls it with {}", primitive, registers,
                         group.registers_called));
    }
    group.registers_called = registers;
    group.warps_called = (group.warps_called + 1) % (hopper::warpgroup_threads / hopper::warp_threads);
}

}  // namespace

void give_registers(int registers) {
    synchronise_for_registers("registers_give", registers);
    Warp& warp = me().own_warp();
    if (warp.registers < registers) fail(fmt::format("registers_give<{}>: has {}", registers, warp.registers));
    me().block->free_registers += (warp.registers - registers) * hopper::warp_threads;
    warp.registers = registers;
}

void take_registers(int registers) {
    synchronise_for_registers("registers_take", registers);
    Block& block = *me().block;
    Warp& warp = me().own_warp();
    if (warp.registers > registers) fail(fmt::format("registers_take<{}>: has {}", registers, warp.registers));
    WaitForRegisters wait(block, warp, registers);
    machine().wait_for(wait);
    block.free_registers -= wait.needed();
    warp.registers = registers;
}

}  // namespace tilewright::emulator
