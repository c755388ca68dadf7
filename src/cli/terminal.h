// What all commands share to talk to a person: tables, a progress bar (on a terminal only), durations and sizes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tilewright::cli {

/// "812 ns", "12.3 us", "4.56 ms", "1.23 s", "2 min 5 s".
std::string format_duration(double seconds);

/// "512 B", "1.50 KiB", "3.07 MiB", ...
std::string format_bytes(double bytes);

/// Three significant digits without an exponent where that is readable: "0.0123", "4.56", "789", "1.2e-07".
std::string format_number(double value);

/// "a, b, c"
std::string joined(const std::vector<std::string>& words, const std::string& separator = ", ");

struct Column {
    std::string title;
    bool right = false;     // numbers are aligned to the right
    std::size_t width = 0;  // at least this wide; the widest cell decides beyond it
};

/// An aligned table. Either add all rows and ask for `text`, or, for rows that come slowly, give the columns widths
/// and print `header` and each `line` as it comes.
class Table {
public:
    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

    void add(std::vector<std::string> cells);

    /// Header, rule and all rows, each ending in a newline.
    std::string text() const;

    std::string header() const;
    std::string line(const std::vector<std::string>& cells) const;

private:
    std::vector<std::size_t> widths() const;
    std::string aligned(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;
    std::string header(const std::vector<std::size_t>& widths) const;

    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

/// One line on stderr that is drawn over again, at most ten times a second; silent where stderr is no terminal.
class Progress {
public:
    Progress(std::string what, std::uint64_t total);
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// `note` says what is being done now.
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
