#include "formats/element.h"

#include <cstring>

namespace tilewright::formats {
namespace {

template <class T>
T read(const void* data, std::int64_t index) {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(data) + index * std::int64_t{sizeof(T)}, sizeof(T));
    return value;
}

template <class T>
void write(void* data, std::int64_t index, T value) {
    std::memcpy(static_cast<std::byte*>(data) + index * std::int64_t{sizeof(T)}, &value, sizeof(T));
}

std::uint32_t load_code(const void* data, Format format, std::int64_t index) {
    switch (bits(format)) {
        case 4: return std::uint32_t{read<std::uint8_t>(data, index >> 1)} >> ((index & 1) * 4) & 15U;
        case 8: return read<std::uint8_t>(data, index);
        case 16: return read<std::uint16_t>(data, index);
        default: return read<std::uint32_t>(data, index);
    }
}

void store_code(void* data, Format format, std::int64_t index, std::uint32_t code) {
    switch (bits(format)) {
        case 4: {
            const int shift = (index & 1) != 0 ? 4 : 0;
            const std::uint32_t other = read<std::uint8_t>(data, index >> 1) & (0xF0U >> shift);
            return write(data, index >> 1, static_cast<std::uint8_t>(other | code << shift));
        }
        case 8: return write(data, index, static_cast<std::uint8_t>(code));
        case 16: return write(data, index, static_cast<std::uint16_t>(code));
        default: return write(data, index, code);
    }
}

}  // namespace

const Fields& fields(Format format) {
    switch (format) {
        case Format::e4m3:
        case Format::ue4m3: return e4m3_fields;
        case Format::e5m2: return e5m2_fields;
        case Format::e2m1: return e2m1_fields;
        case Format::bf16: return bf16_fields;
        case Format::f16: return f16_fields;
        default: return f32_fields;
    }
}

double load(const void* data, Format format, std::int64_t index) {
    switch (format) {
        case Format::i32:
        case Format::i64: return static_cast<double>(load_integer(data, format, index));
        case Format::ue8m0: return decode_ue8m0(load_code(data, format, index));
        case Format::ue4m3: return decode_ue4m3(load_code(data, format, index));
        default: return decode(fields(format), load_code(data, format, index));
    }
}

void store(void* data, Format format, std::int64_t index, double value) {
    const Overflow overflow = bits(format) < 16 ? Overflow::saturate : Overflow::propagate;
    switch (format) {
        case Format::ue8m0: return store_code(data, format, index, encode_ue8m0(value));
        case Format::ue4m3: return store_code(data, format, index, encode_ue4m3(value));
        default: return store_code(data, format, index, encode(fields(format), value, overflow));
    }
}

std::int64_t load_integer(const void* data, Format format, std::int64_t index) {
    return format == Format::i32 ? read<std::int32_t>(data, index) : read<std::int64_t>(data, index);
}

}  // namespace tilewright::formats
