#include "output/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace tilewright::output {
namespace {

/// Three significant digits, never an exponent; for values from 1 to 9999.
std::string three_digits(double value) {
    if (value < 9.995) return fmt::format("{:.2f}", value);
    if (value < 99.95) return fmt::format("{:.1f}", value);
    return fmt::format("{:.0f}", value);
}

/// Columns on the screen: bytes of UTF-8 that continue a character have no width.
std::size_t screen_width(const std::string& text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string format_duration(double seconds) {
    if (!(seconds >= 0)) return "-";
    if (seconds < 0.9995e-6) return fmt::format("{:.0f} ns", seconds * 1e9);
    if (seconds < 0.9995e-3) return three_digits(seconds * 1e6) + " us";
    if (seconds < 0.9995) return three_digits(seconds * 1e3) + " ms";
    if (seconds < 119.5) return three_digits(seconds) + " s";
    const auto whole = static_cast<std::int64_t>(std::lround(seconds));
    return fmt::format("{} min {} s", whole / 60, whole % 60);
}

std::string format_bytes(double bytes) {
    constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t unit = 0;
    while (bytes >= 1023.5 && unit + 1 < units.size()) {
        bytes /= 1024;
        ++unit;
    }
    return unit == 0 ? fmt::format("{:.0f} B", bytes) : three_digits(bytes) + " " + units[unit];
}

std::string format_number(double value) {
    const double magnitude = std::fabs(value);
    if (!std::isfinite(value)) return fmt::format("{}", value);
    if (magnitude == 0) return "0";
    if (magnitude < 1e-3 || magnitude >= 1e6) return fmt::format("{:.1e}", value);
    if (magnitude < 1) return fmt::format("{:.3g}", value);
    return (value < 0 ? "-" : "") + three_digits(magnitude);
}

std::string joined(const std::vector<std::string>& words, const std::string& separator) {
    return fmt::format("{}", fmt::join(words, separator));
}

void Table::add(std::vector<std::string> cells) {
    cells.resize(columns_.size());
    rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        std::size_t width = std::max(columns_[i].width, screen_width(columns_[i].title));
        for (const auto& row : rows_) width = std::max(width, screen_width(row[i]));
        widths.push_back(width);
    }
    return widths;
}

std::string Table::aligned(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const {
    std::string line;
    for (std::size_t i = 0; i < columns_.size() && i < cells.size(); ++i) {
        const std::size_t used = screen_width(cells[i]);
        const std::string padding(used < widths[i] ? widths[i] - used : 0, ' ');
        if (i > 0) line += "  ";
        line += columns_[i].right ? padding + cells[i] : cells[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
}

std::string Table::header(const std::vector<std::size_t>& widths) const {
    std::vector<std::string> titles;
    std::vector<std::string> rules;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        titles.push_back(columns_[i].title);
        rules.emplace_back(widths[i], '-');
    }
    return aligned(titles, widths) + aligned(rules, widths);
}

std::string Table::header() const { return header(widths()); }

std::string Table::line(const std::vector<std::string>& cells) const { return aligned(cells, widths()); }

std::string Table::text() const {
    const std::vector<std::size_t> all_widths = widths();
    std::string text = header(all_widths);
    for (const auto& row : rows_) text += aligned(row, all_widths);
    return text;
}

}  // namespace tilewright::output
