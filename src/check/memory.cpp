#include "check/memory.h"

#include <sys/mman.h>
#include <unistd.h>
#include "base/math.h"

#include <cstring>
#include <new>
#include <utility>

namespace tilewright::check {
Memory::Memory(std::size_t bytes, bool guard_pages) : size_(bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t guard = round_up(guard_band, page);
    const std::size_t room = round_up(bytes, page);
    mapped_ = page + guard + room + guard + page;
    mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping_ == MAP_FAILED) {
        mapping_ = nullptr;
        throw std::bad_alloc();
    }
    std::byte* const inside = static_cast<std::byte*>(mapping_) + page;
    if (guard_pages) {
        std::byte* const end = inside + guard + room;
        mprotect(mapping_, page, PROT_NONE);
        mprotect(end, guard + page, PROT_NONE);
        data_ = end - bytes;
        whole_ = {inside, end};
    } else {
        data_ = inside + guard;
        whole_ = {data_ - guard_band, data_ + bytes + guard_band};
    }
    std::memset(whole_.data(), std::to_integer<int>(poison), whole_.size());
}

Memory::~Memory() {
    if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

Memory& Memory::operator=(Memory&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(mapped_, other.mapped_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(whole_, other.whole_);
    return *this;
}

std::uint64_t hash(std::span<const std::byte> bytes) {
    std::uint64_t state = 0xCBF29CE484222325ULL;
    while (!bytes.empty()) {
        std::uint64_t word = bytes.size();
        const std::size_t taken = bytes.size() < sizeof(word) ? bytes.size() : sizeof(word);
        std::memcpy(&word, bytes.data(), taken);
        state = (state ^ word) * 0x100000001B3ULL;
        state ^= state >> 32;
        bytes = bytes.subspan(taken);
    }
    return state;
}

}  // namespace tilewright::check
