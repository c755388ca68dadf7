#include "measure/kernels.h"

#include <string_view>

namespace tilewright::measure {
namespace {

constexpr std::string_view head = R"ptx(.version 8.0
.target sm_90
.address_size 64
)ptx";

/// A grid-stride loop: the first %index of a thread, and its %step.
constexpr std::string_view grid_stride = R"ptx(    .reg .b32 %block, %size, %thread, %blocks;
    .reg .b64 %index, %step;
    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mov.u32 %thread, %tid.x;
    mov.u32 %blocks, %nctaid.x;
    cvt.u64.u32 %index, %thread;
    mad.wide.u32 %index, %block, %size, %index;
    mul.wide.u32 %step, %blocks, %size;
)ptx";

constexpr std::string_view fill_words =
    R"ptx(.visible .entry fill_words(.param .u64 to, .param .u64 vectors, .param .u32 value)
{
    .reg .pred %p;
    .reg .b32 %value;
    .reg .b64 %count, %to, %offset, %address;
    ld.param.u64 %to, [to];
    ld.param.u64 %count, [vectors];
    ld.param.u32 %value, [value];
    cvta.to.global.u64 %to, %to;
)ptx";
constexpr std::string_view fill_words_loop = R"ptx(again:
    setp.ge.u64 %p, %index, %count;
    @%p bra done;
    shl.b64 %offset, %index, 4;
    add.u64 %address, %to, %offset;
    st.global.v4.u32 [%address], {%value, %value, %value, %value};
    add.u64 %index, %index, %step;
    bra again;
done:
    ret;
}
)ptx";

// The sum is compared with a number that never comes, so that no load is left out.
constexpr std::string_view read_words =
    R"ptx(.visible .entry read_words(.param .u64 from, .param .u64 vectors, .param .u64 unused)
{
    .reg .pred %p;
    .reg .b32 %sum, %a, %b, %c, %d;
    .reg .b64 %count, %from, %offset, %address, %unused;
    ld.param.u64 %from, [from];
    ld.param.u64 %count, [vectors];
    ld.param.u64 %unused, [unused];
    cvta.to.global.u64 %from, %from;
    cvta.to.global.u64 %unused, %unused;
)ptx";
constexpr std::string_view read_words_loop = R"ptx(    mov.u32 %sum, 0;
again:
    setp.ge.u64 %p, %index, %count;
    @%p bra done;
    shl.b64 %offset, %index, 4;
    add.u64 %address, %from, %offset;
    ld.global.v4.u32 {%a, %b, %c, %d}, [%address];
    xor.b32 %sum, %sum, %a;
    xor.b32 %sum, %sum, %b;
    xor.b32 %sum, %sum, %c;
    xor.b32 %sum, %sum, %d;
    add.u64 %index, %index, %step;
    bra again;
done:
    setp.ne.u32 %p, %sum, 0x9E3779B9;
    @!%p st.global.u32 [%unused], %sum;
    ret;
}
)ptx";

constexpr std::string_view read_clocks = R"ptx(.visible .entry read_clocks(.param .u64 readings)
{
    .reg .b32 %sm;
    .reg .b64 %to, %offset, %cycles, %nanoseconds;
    ld.param.u64 %to, [readings];
    cvta.to.global.u64 %to, %to;
    mov.u32 %sm, %smid;
    mul.wide.u32 %offset, %sm, 16;
    add.u64 %to, %to, %offset;
    mov.u64 %cycles, %clock64;
    mov.u64 %nanoseconds, %globaltimer;
    st.global.v2.u64 [%to], {%cycles, %nanoseconds};
    ret;
}
)ptx";

// Mixes word + (index + 1) * 0x9E3779B97F4A7C15 as in splitmix64, and adds up.
constexpr std::string_view hash_words =
    R"ptx(.visible .entry hash_words(.param .u64 from, .param .u64 words, .param .u64 sum)
{
    .reg .pred %p;
    .reg .b32 %word;
    .reg .b64 %count, %from, %offset, %address, %sum, %hash, %mixed, %shifted;
    ld.param.u64 %from, [from];
    ld.param.u64 %count, [words];
    ld.param.u64 %sum, [sum];
    cvta.to.global.u64 %from, %from;
    cvta.to.global.u64 %sum, %sum;
)ptx";
constexpr std::string_view hash_words_loop = R"ptx(    mov.u64 %hash, 0;
again:
    setp.ge.u64 %p, %index, %count;
    @%p bra done;
    shl.b64 %offset, %index, 2;
    add.u64 %address, %from, %offset;
    ld.global.u32 %word, [%address];
    add.u64 %mixed, %index, 1;
    mul.lo.u64 %mixed, %mixed, 0x9E3779B97F4A7C15;
    cvt.u64.u32 %shifted, %word;
    add.u64 %mixed, %mixed, %shifted;
    shr.u64 %shifted, %mixed, 30;
    xor.b64 %mixed, %mixed, %shifted;
    mul.lo.u64 %mixed, %mixed, 0xBF58476D1CE4E5B9;
    shr.u64 %shifted, %mixed, 27;
    xor.b64 %mixed, %mixed, %shifted;
    mul.lo.u64 %mixed, %mixed, 0x94D049BB133111EB;
    shr.u64 %shifted, %mixed, 31;
    xor.b64 %mixed, %mixed, %shifted;
    add.u64 %hash, %hash, %mixed;
    add.u64 %index, %index, %step;
    bra again;
done:
    red.global.add.u64 [%sum], %hash;
    ret;
}
)ptx";

// One thread of each block copies every gridDim.x-th chunk of 16 KB into a ring of 12 in shared memory, which nothing
// reads. `arrived` counts the chunks: a wait that lasts too long ends the kernel, and leaves the count short.
constexpr std::string_view stream_chunks =
    R"ptx(.extern .shared .align 128 .b8 room[];
.visible .entry stream_chunks(.param .u64 from, .param .u64 chunks, .param .u64 arrived)
{
    .reg .pred %p, %ready;
    .reg .b32 %stage, %turn, %barrier, %place, %parity, %left, %budget, %first_barrier, %first_place;
    .reg .b64 %count, %from, %offset, %address, %to, %seen;
    .shared .align 8 .b64 full[12];
    ld.param.u64 %from, [from];
    ld.param.u64 %count, [chunks];
    ld.param.u64 %to, [arrived];
    cvta.to.global.u64 %from, %from;
    cvta.to.global.u64 %to, %to;
    mov.u32 %first_barrier, full;
    mov.u32 %first_place, room;
    mov.u32 %stage, 0;
init:
    mad.lo.u32 %barrier, %stage, 8, %first_barrier;
    mbarrier.init.shared::cta.b64 [%barrier], 1;
    add.u32 %stage, %stage, 1;
    setp.lt.u32 %p, %stage, 12;
    @%p bra init;
    fence.mbarrier_init.release.cluster;
    mov.u32 %stage, 0;
    mov.u32 %turn, 0;
    mov.u32 %left, 12;
    mov.u64 %seen, 0;
    mov.u32 %budget, 4000000;
)ptx";
constexpr std::string_view stream_chunks_loop = R"ptx(again:
    mad.lo.u32 %barrier, %stage, 8, %first_barrier;
    mad.lo.u32 %place, %stage, 16384, %first_place;
    setp.eq.u32 %p, %turn, 0;
    @%p bra next;
    sub.u32 %parity, %turn, 1;
    and.b32 %parity, %parity, 1;
wait:
    sub.u32 %budget, %budget, 1;
    setp.eq.u32 %p, %budget, 0;
    @%p bra done;
    mbarrier.try_wait.parity.shared::cta.b64 %ready, [%barrier], %parity;
    @!%ready bra wait;
    add.u64 %seen, %seen, 1;
next:
    setp.ge.u64 %p, %index, %count;
    @%p bra none;
    shl.b64 %offset, %index, 14;
    add.u64 %address, %from, %offset;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%barrier], 16384;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%place], [%address], 16384, [%barrier];
    add.u64 %index, %index, %step;
    bra advance;
none:
    sub.u32 %left, %left, 1;
    setp.eq.u32 %p, %left, 0;
    @%p bra done;
advance:
    add.u32 %stage, %stage, 1;
    setp.lt.u32 %p, %stage, 12;
    @%p bra again;
    mov.u32 %stage, 0;
    add.u32 %turn, %turn, 1;
    bra again;
done:
    red.global.add.u64 [%to], %seen;
    ret;
}
)ptx";

}  // namespace

const std::string& kernels_ptx() {
    static const std::string text = [] {
        std::string joined;
        for (const std::string_view part :
             {head, fill_words, grid_stride, fill_words_loop, read_words, grid_stride, read_words_loop, read_clocks,
              hash_words, grid_stride, hash_words_loop, stream_chunks, grid_stride, stream_chunks_loop}) {
            joined += part;
        }
        return joined;
    }();
    return text;
}

}  // namespace tilewright::measure
