// encode and decode of whole tensors: checked, then converted in runs of elements.
#include "base/math.h"
#include "base/threads.h"
#include "formats/convert.h"
#include "formats/quantize_check.h"

#include <tilewright/error.h>
#include <tilewright/quantize.h>

#include <algorithm>

namespace tilewright {
namespace {

/// Elements between two questions whether the caller wants to end the call: about a millisecond.
constexpr std::int64_t longest_run = 1 << 20;

/// Calls function(first element, byte of `codes` where it is, elements) for runs that begin at whole bytes.
template <class Function>
void for_each_run(const Tensor& codes, const ConversionOptions& how, Function function) {
    std::int64_t elements = 1;
    for (const std::int64_t size : codes.shape) elements *= size;
    // Rows of e2m1 begin at whole bytes, everything else is one row.
    const std::int64_t row = codes.format == Format::e2m1 ? codes.shape[codes.shape.rank() - 1] : elements;
    Cancellation cancellation(how.cancelled);
    auto* bytes = static_cast<std::byte*>(codes.data);
    for (std::int64_t begin = 0; begin < elements; begin += row) {
        for (std::int64_t at = 0; at < row && !cancellation.requested(); at += longest_run) {
            function(begin + at, bytes + at * bits(codes.format) / 8, std::min(longest_run, row - at));
        }
        bytes += ceil_div(row * bits(codes.format), std::int64_t{8});
    }
    cancellation.check();
}

}  // namespace

void encode(const Tensor& source, const Tensor& out, bool saturate, const ConversionOptions& how) {
    std::vector<Finding> findings = formats::check_encode(source, out);
    if (!findings.empty()) throw Error(std::move(findings));
    const auto overflow = saturate ? formats::Overflow::saturate : formats::Overflow::propagate;
    const auto* numbers = static_cast<const float*>(source.data);
    for_each_run(out, how, [&](std::int64_t first, std::byte* codes, std::int64_t count) {
        formats::encode(out.format, numbers + first, count, codes, overflow);
    });
}

void decode(const Tensor& source, const Tensor& out, const ConversionOptions& how) {
    std::vector<Finding> findings = formats::check_decode(source, out);
    if (!findings.empty()) throw Error(std::move(findings));
    auto* numbers = static_cast<float*>(out.data);
    for_each_run(source, how, [&](std::int64_t first, const std::byte* codes, std::int64_t count) {
        formats::decode(source.format, codes, count, numbers + first);
    });
}

}  // namespace tilewright
