// The header of a safetensors file: what its JSON may contain, and whether its tensors fit the data.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "safetensors/safetensors.h"

namespace tilewright::safetensors {
namespace {

constexpr std::size_t longest_name = 1024;
constexpr const char* metadata_key = "__metadata__";

struct Dtype {
    std::string_view name;
    int bits;
};

// The dtypes of safetensors 0.8.
constexpr std::array dtypes{Dtype{"BOOL", 8},    Dtype{"F4", 4},          Dtype{"F6_E2M3", 6},     Dtype{"F6_E3M2", 6},
                            Dtype{"U8", 8},      Dtype{"I8", 8},          Dtype{"F8_E5M2", 8},     Dtype{"F8_E4M3", 8},
                            Dtype{"F8_E8M0", 8}, Dtype{"F8_E4M3FNUZ", 8}, Dtype{"F8_E5M2FNUZ", 8}, Dtype{"I16", 16},
                            Dtype{"U16", 16},    Dtype{"F16", 16},        Dtype{"BF16", 16},       Dtype{"I32", 32},
                            Dtype{"U32", 32},    Dtype{"F32", 32},        Dtype{"C64", 64},        Dtype{"F64", 64},
                            Dtype{"I64", 64},    Dtype{"U64", 64}};

std::string known_dtypes() {
    std::string text;
    for (const Dtype& dtype : dtypes) text += (text.empty() ? "" : ", ") + std::string(dtype.name);
    return text;
}

/// A name fit for a message: shortened, without control characters.
std::string in_quotes(const std::string& name) {
    std::string text;
    for (char c : name.substr(0, 60)) text += static_cast<unsigned char>(c) < 32 ? '?' : c;
    return name.size() > 60 ? "'" + text + "...'" : "'" + text + "'";
}

[[noreturn]] void refuse(const std::string& message) { throw SafetensorsError(message); }

/// Takes the header event by event, so that a wrong one is refused at its first wrong token, whatever its size.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
public:
    SafetensorsHeader header;

    bool start_object(std::size_t) override {
        if (place_ == Place::before) {
            place_ = Place::top;
        } else if (place_ == Place::top && tensor_.name == metadata_key) {
            place_ = Place::metadata;
        } else if (place_ == Place::top) {
            place_ = Place::tensor;
        } else {
            unexpected("an object");
        }
        return true;
    }

    bool end_object() override {
        if (place_ == Place::top) {
            place_ = Place::after;
            return true;
        }
        if (place_ == Place::tensor) finish_tensor();
        place_ = Place::top;
        return true;
    }

    bool key(string_t& word) override {
        if (place_ == Place::top) {
            if (!names_.insert(word).second) refuse("tensor " + in_quotes(word) + " appears twice");
            if (word.size() > longest_name) {
                refuse(fmt::format("tensor {} has a name of {} bytes; at most {} are allowed", in_quotes(word),
                                   word.size(), longest_name));
            }
            tensor_ = StoredTensor{.name = word};
            fields_.clear();
            return true;
        }
        field_ = word;
        if (place_ == Place::metadata) {
            if (header.metadata.count(word) != 0) refuse("__metadata__ has the key " + in_quotes(word) + " twice");
            return true;
        }
        if (word != "dtype" && word != "shape" && word != "data_offsets") {
            refuse(fmt::format("tensor {} has the unknown key {}; dtype, shape and data_offsets are expected",
                               in_quotes(tensor_.name), in_quotes(word)));
        }
        if (!fields_.insert(word).second) refuse(fmt::format("tensor {} has {} twice", in_quotes(tensor_.name), word));
        return true;
    }

    bool start_array(std::size_t) override {
        if (place_ != Place::tensor || field_ == "dtype") unexpected("an array");
        place_ = Place::numbers;
        return true;
    }

    bool end_array() override {
        place_ = Place::tensor;
        return true;
    }

    bool string(string_t& text) override {
        if (place_ == Place::metadata) {
            header.metadata[field_] = text;
        } else if (place_ == Place::tensor && field_ == "dtype") {
            tensor_.dtype = text;
        } else {
            unexpected("a string");
        }
        return true;
    }

    bool number_unsigned(number_unsigned_t value) override {
        if (place_ != Place::numbers) unexpected("a number");
        if (field_ == "shape") {
            tensor_.shape.push_back(value);
        } else {
            offsets_.push_back(value);
        }
        return true;
    }

    bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
    bool number_float(number_float_t, const string_t& text) override { return unexpected("the number " + text); }
    bool null() override { return (place_ == Place::top && tensor_.name == metadata_key) || unexpected("null"); }
    bool boolean(bool) override { return unexpected("true or false"); }
    bool binary(binary_t&) override { return unexpected("binary data"); }

    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
        refuse(fmt::format("the header is not valid JSON: byte {} of it is wrong", position));
    }

private:
    enum class Place { before, top, metadata, tensor, numbers, after };

    [[noreturn]] bool unexpected(const std::string& what) {
        switch (place_) {
            case Place::before:
            case Place::after: refuse("the header is not a JSON object");
            case Place::top:
                if (tensor_.name == metadata_key) {
                    refuse(fmt::format("{} is {}, not an object with strings", metadata_key, what));
                }
                refuse(fmt::format("tensor {} is {}, not an object with dtype, shape and data_offsets",
                                   in_quotes(tensor_.name), what));
            case Place::metadata: refuse("__metadata__ has " + what + " for " + in_quotes(field_) + ", not a string");
            case Place::tensor:
            case Place::numbers: break;
        }
        const char* expected = field_ == "dtype" ? "a string" : "a list of non-negative whole numbers";
        refuse(fmt::format("tensor {} has {} in {}, where {} is expected", in_quotes(tensor_.name), what, field_,
                           expected));
    }

    void finish_tensor() {
        for (const char* field : {"dtype", "shape", "data_offsets"}) {
            if (fields_.count(field) == 0) refuse(fmt::format("tensor {} has no {}", in_quotes(tensor_.name), field));
        }
        if (offsets_.size() != 2) {
            refuse(fmt::format("tensor {} has {} data_offsets; begin and end are expected", in_quotes(tensor_.name),
                               offsets_.size()));
        }
        tensor_.begin = offsets_[0];
        tensor_.end = offsets_[1];
        offsets_.clear();
        header.tensors.push_back(std::move(tensor_));
        tensor_ = StoredTensor{};
    }

    Place place_ = Place::before;
    StoredTensor tensor_;
    std::string field_;
    std::set<std::string> fields_;
    std::set<std::string> names_;
    std::vector<std::uint64_t> offsets_;
};

void check_tensor(const StoredTensor& tensor, std::uint64_t data_bytes) {
    const std::string who = "tensor " + in_quotes(tensor.name);
    if (!dtype_bits(tensor.dtype)) {
        refuse(fmt::format("{} has the unknown dtype {}; known: {}", who, in_quotes(tensor.dtype), known_dtypes()));
    }
    if (tensor.begin > tensor.end) {
        refuse(fmt::format("{} has the data_offsets [{}, {}]: its end is before its beginning", who, tensor.begin,
                           tensor.end));
    }
    if (tensor.end > data_bytes) {
        refuse(fmt::format("{} claims the bytes {} to {} of {} bytes of data; the file may be truncated", who,
                           tensor.begin, tensor.end, data_bytes));
    }
    const std::optional<std::uint64_t> expected = stored_bytes(tensor.dtype, tensor.shape);
    if (!expected || *expected != tensor.bytes()) {
        refuse(fmt::format("{} of dtype {} and shape [{}] cannot have {} bytes", who, tensor.dtype,
                           fmt::join(tensor.shape, ", "), tensor.bytes()));
    }
}

void check_cover(const std::vector<StoredTensor>& tensors, std::uint64_t data_bytes) {
    std::uint64_t position = 0;
    for (const StoredTensor& tensor : tensors) {
        if (tensor.begin != position) {
            refuse(fmt::format(
                "tensor {} begins at byte {} of the data, {} byte {}", in_quotes(tensor.name), tensor.begin,
                tensor.begin < position ? "overlapping the one that ends at" : "leaving a hole from", position));
        }
        position = tensor.end;
    }
    if (position != data_bytes) {
        refuse(fmt::format("the tensors end at byte {} of the data, the file at {}", position, data_bytes));
    }
}

}  // namespace

std::optional<int> dtype_bits(std::string_view dtype) {
    for (const Dtype& known : dtypes) {
        if (known.name == dtype) return known.bits;
    }
    return std::nullopt;
}

std::optional<std::uint64_t> stored_bytes(std::string_view dtype, const std::vector<std::uint64_t>& shape) {
    const std::optional<int> bits = dtype_bits(dtype);
    if (!bits) return std::nullopt;
    constexpr std::uint64_t limit = std::numeric_limits<std::int64_t>::max();
    std::uint64_t total = static_cast<std::uint64_t>(*bits);
    for (std::uint64_t size : shape) {  // in order, as the format's own reader: an overflow before a 0 is one
        if (total != 0 && size > limit / total) return std::nullopt;
        total *= size;
    }
    if (total % 8 != 0) return std::nullopt;
    return total / 8;
}

SafetensorsHeader parse_header(std::string_view json, std::uint64_t data_bytes) {
    if (json.empty() || json.front() != '{') refuse("the header is not a JSON object");
    // The JSON parser takes it for the end of its text, and would leave what follows unread.
    if (const std::size_t nul = json.find('\0'); nul != std::string_view::npos) {
        refuse(
            fmt::format("the header is not valid JSON: byte {} of it is NUL; only spaces may follow the object", nul));
    }
    HeaderHandler handler;
    nlohmann::json::sax_parse(json, &handler);
    std::vector<StoredTensor>& tensors = handler.header.tensors;
    std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& left, const StoredTensor& right) {
        return std::tie(left.begin, left.end) < std::tie(right.begin, right.end);
    });
    for (const StoredTensor& tensor : tensors) check_tensor(tensor, data_bytes);
    check_cover(tensors, data_bytes);
    return std::move(handler.header);
}

}  // namespace tilewright::safetensors
