// The standard streams of a program. They always exist; printed text arrives, or an error reports that it did not; a
// message that cannot be printed does not end the program.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>
#include <utility>

namespace tilewright::output {

/// Opens /dev/null where the caller closed stdin, stdout or stderr. To be called before any file is opened: that file
/// would get the number of a closed stream, and messages would be written into it. Throws std::runtime_error where
/// there is no /dev/null.
void open_closed_streams();

/// Writes all of it, also where the descriptor is a pipe that is full and does not block. The error number, 0 for none.
int write_all(int descriptor, std::string_view text) noexcept;

/// stdout cannot be written.
class StdoutError : public std::runtime_error {
public:
    explicit StdoutError(int error);

    /// Whether the reader of a pipe has gone. That is not a mistake: `tilewright verify | head`.
    bool reader_is_gone() const { return reader_is_gone_; }

private:
    bool reader_is_gone_;
};

/// Writes all of it to stdout. Throws StdoutError.
void print_text(std::string_view text);

template <class... Arguments>
void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    print_text(fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// Writes to stderr; ignores failures.
void complain_text(std::string_view text) noexcept;

template <class... Arguments>
void complain(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    complain_text(fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// Closes stdout, because some file systems only then report that they are full. Throws StdoutError.
void close_stdout();

}  // namespace tilewright::output
