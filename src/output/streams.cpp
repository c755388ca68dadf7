#include "output/streams.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tilewright::output {

int write_all(int descriptor, std::string_view text) noexcept {
    while (!text.empty()) {
        const ssize_t written = ::write(descriptor, text.data(), text.size());
        if (written >= 0) {
            text.remove_prefix(static_cast<std::size_t>(written));
        } else if (errno == EAGAIN) {
            pollfd full{.fd = descriptor, .events = POLLOUT, .revents = 0};
            poll(&full, 1, -1);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

void open_closed_streams() {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
        // `open` returns the lowest free number, and the lower ones are open by now.
        if (open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY) == stream) continue;
        throw std::runtime_error(
            fmt::format("stdin, stdout or stderr is closed and /dev/null cannot take its place: {}; open it",
                        std::strerror(errno)));
    }
}

StdoutError::StdoutError(int error)
    : std::runtime_error(fmt::format("stdout: cannot be written: {}", std::strerror(error))),
      reader_is_gone_(error == EPIPE) {}

void print_text(std::string_view text) {
    if (const int error = write_all(STDOUT_FILENO, text); error != 0) throw StdoutError(error);
}

void complain_text(std::string_view text) noexcept { write_all(STDERR_FILENO, text); }

void close_stdout() {
    if (std::fflush(stdout) != 0) throw StdoutError(errno);  // the output of a library
    if (close(STDOUT_FILENO) != 0 && errno != EINTR) throw StdoutError(errno);
}

}  // namespace tilewright::output
