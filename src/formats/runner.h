// Runs the items of one conversion on the threads that the call may use, until its caller cancels it.
#pragma once

#include "base/region.h"
#include "formats/matrix_view.h"

#include <tilewright/quantize.h>

#include <omp.h>

#include <cstdint>
#include <memory>

namespace tilewright::formats {

/// The threads and the cancellation of one call.
class Runner {
public:
    Runner(const MatrixView& source, const ConversionOptions& how)
        : threads_(region_threads(how.threads, source.groups * source.rows * source.columns / elements_for_a_thread)),
          cancellation_(how.cancelled) {}

    /// item(i, scratch): a Scratch with arbitrary contents that no other thread uses. It is on the heap, because
    /// threads may have small stacks. 128 KiB are usual in musl and in servers, and a single tile takes 132.
    template <class Scratch, class Item>
    void for_each(std::int64_t count, Item item) {
        const std::unique_ptr<Scratch[]> scratch(new Scratch[static_cast<std::size_t>(threads_)]);
        open_region(threads_, cancellation_, [&] {
#pragma omp parallel for schedule(static) num_threads(threads_) if (threads_ > 1)
            for (std::int64_t i = 0; i < count; ++i) {
                if (!cancellation_.requested()) item(i, scratch[static_cast<std::size_t>(omp_get_thread_num())]);
            }
        });
        cancellation_.check();
    }

private:
    /// Starting a thread costs more than converting this many.
    static constexpr std::int64_t elements_for_a_thread = 32768;

    int threads_;
    Cancellation cancellation_;
};

}  // namespace tilewright::formats
