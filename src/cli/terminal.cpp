#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "output/streams.h"
#include "output/table.h"

namespace tilewright::cli {
namespace {

std::size_t terminal_width() {
    winsize size{};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 80;
}

}  // namespace

Progress::Progress(std::string what, std::uint64_t total)
    : what_(std::move(what)), total_(total), visible_(isatty(STDERR_FILENO) == 1) {}

void Progress::set(std::uint64_t done, const std::string& note) {
    done_ = done;
    if (!visible_) return;
    const auto now = Clock::now();
    if (drawn_ && now - last_draw_ < std::chrono::milliseconds(100)) return;
    last_draw_ = now;
    draw(note);
}

void Progress::draw(const std::string& note) {
    constexpr std::size_t cells = 24;
    const double part = total_ == 0 ? 1 : std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
    const auto filled = static_cast<std::size_t>(part * cells);
    const double elapsed = std::chrono::duration<double>(Clock::now() - begin_).count();
    std::string line = fmt::format("{} [{:#<{}}{:.<{}}] {:3.0f} %", what_, "", filled, "", cells - filled, part * 100);
    if (part > 0.02 && elapsed > 1)
        line += fmt::format(", {} left", output::format_duration(elapsed * (1 - part) / part));
    if (!note.empty()) line += "  " + note;
    line.resize(std::min(line.size(), terminal_width() - 1));
    output::complain("\r\x1b[K{}", line);
    drawn_ = true;
}

void Progress::clear() {
    if (!drawn_) return;
    output::complain("\r\x1b[K");
    drawn_ = false;
}

}  // namespace tilewright::cli
