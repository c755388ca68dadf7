// Numbers and tables for people: durations, sizes and aligned columns.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tilewright::output {

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

/// An aligned table. Add all rows and ask for `text`. For rows that come slowly, give the columns widths and print
/// `header` and each `line` as it comes.
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

}  // namespace tilewright::output
