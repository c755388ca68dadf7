// A progress bar on stderr, where that is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tilewright::cli {

/// One line on stderr that is redrawn at most ten times per second; silent if stderr is not a terminal.
class Progress {
public:
    Progress(std::string what, std::uint64_t total);
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// `note` names the present step.
    void set(std::uint64_t done, const std::string& note = "");
    void advance(std::uint64_t by, const std::string& note = "") { set(done_ + by, note); }

    /// Takes the line away, so that something else can be printed; the next `set` draws it again.
    void clear();

private:
    using Clock = std::chrono::steady_clock;

    void draw(const std::string& note);

    std::string what_;
    std::uint64_t total_;
    std::uint64_t done_ = 0;
    bool visible_;
    bool drawn_ = false;
    Clock::time_point begin_ = Clock::now();
    Clock::time_point last_draw_;
};

}  // namespace tilewright::cli
