#include "cpu/exact/records.h"

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <string>

namespace tilewright::tests {
namespace {

constexpr std::array<std::array<Format, 2>, 6> kinds{{{Format::e4m3, Format::e4m3},
                                                      {Format::e5m2, Format::e4m3},
                                                      {Format::e4m3, Format::e5m2},
                                                      {Format::e5m2, Format::e5m2},
                                                      {Format::e4m3, Format::e4m3},
                                                      {Format::bf16, Format::bf16}}};

void read(std::ifstream& file, void* out, std::size_t bytes) {
    if (!file.read(static_cast<char*>(out), static_cast<std::streamsize>(bytes))) {
        throw std::runtime_error("the file ends within a record");
    }
}

/// [steps][rows][32 bytes] in the file to [rows][steps * 32 bytes].
std::vector<std::byte> read_operand(std::ifstream& file, int steps, int rows) {
    constexpr int bytes = MmaRecord::step_bytes;
    std::vector<std::byte> operand(static_cast<std::size_t>(steps) * rows * bytes);
    for (int step = 0; step < steps; ++step) {
        for (int row = 0; row < rows; ++row) read(file, &operand[std::size_t(row * steps + step) * bytes], bytes);
    }
    return operand;
}

}  // namespace

bool MmaRecord::starts_from_zero() const {
    return std::ranges::all_of(c, [](float value) { return value == 0; });
}

std::vector<MmaRecord> read_mma_records(const std::string& name) {
    const std::string path = std::string(TILEWRIGHT_TEST_DATA) + "/" + name;
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(path + " cannot be read");
    std::vector<MmaRecord> records;
    while (file.peek() != std::ifstream::traits_type::eof()) {
        std::array<std::int32_t, 2> header{};
        read(file, header.data(), sizeof(header));
        const auto [kind, steps] = header;
        const bool sane = kind >= 0 && kind < std::ssize(kinds) && steps > 0 && steps <= 16;
        if (!sane) throw std::runtime_error(path + ": a record of unknown kind or length");
        MmaRecord record{.a_format = kinds[kind][0], .b_format = kinds[kind][1], .steps = steps};
        record.a = read_operand(file, steps, MmaRecord::rows);
        record.b = read_operand(file, steps, MmaRecord::columns);
        read(file, record.c.data(), sizeof(record.c));
        read(file, record.d.data(), sizeof(record.d));
        records.push_back(std::move(record));
    }
    return records;
}

}  // namespace tilewright::tests
