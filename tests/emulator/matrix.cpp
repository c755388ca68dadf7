#include "emulator/matrix.h"

#include "plan/tsv.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>

namespace tilewright::tests {
namespace {

template <class Word>
struct Spelled {
    Word word;
    std::string_view text;
};

constexpr Spelled<Groups> groups_words[] = {{Groups::none, "dense"},
                                            {Groups::rows, "m_grouped"},
                                            {Groups::k_aligned, "k_grouped"},
                                            {Groups::k_anywhere, "k_anywhere"}};
constexpr Spelled<Operands> operands_words[] = {{Operands::given, "given"},      {Operands::packed, "packed"},
                                                {Operands::wide, "wide"},        {Operands::unpacked, "unpacked"},
                                                {Operands::raw, "raw"},          {Operands::decoded, "decoded"},
                                                {Operands::expanded, "expanded"}};
constexpr Spelled<Serves> serves_words[] = {
    {Serves::any, "any"}, {Serves::bf16, "bf16"}, {Serves::bf16_copies, "bf16_copies"}, {Serves::f32, "f32"}};
constexpr Spelled<Layout> layout_words[] = {
    {Layout::nt, "nt"}, {Layout::nn, "nn"}, {Layout::tn, "tn"}, {Layout::tt, "tt"}};

template <std::size_t count, class Word>
bool take(const Spelled<Word> (&words)[count], std::string_view text, Word& word) {
    const auto found = std::ranges::find(words, text, &Spelled<Word>::text);
    if (found != std::end(words)) word = found->word;
    return found != std::end(words);
}

template <std::size_t count, class Word>
std::string_view spelled(const Spelled<Word> (&words)[count], Word word) {
    return std::ranges::find(words, word, &Spelled<Word>::word)->text;
}

std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(' ');
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// Parts between separators, without spaces around them, and without parts of nothing.
std::vector<std::string_view> parts(std::string_view text, char separator) {
    std::vector<std::string_view> list;
    for (const std::string_view part : planner::split(text, separator)) {
        if (!trimmed(part).empty()) list.push_back(trimmed(part));
    }
    return list;
}

std::vector<std::string> strings(const std::vector<std::string_view>& views) { return {views.begin(), views.end()}; }

/// "RECIPES FLAGS | TILE | SERVES | CALLS | TAGS | REASON": a kernel for each recipe and each word of SERVES.
std::vector<KernelRow> kernels_of_line(std::string_view line) {
    const std::vector<std::string_view> cells = planner::split(line, '|');
    if (cells.size() < 3) throw std::invalid_argument("got too few cells; expected recipe, tile and what it serves");
    KernelRow row;
    const std::vector<std::string_view> head = parts(cells[0], ' ');
    if (head.empty()) throw std::invalid_argument("got no recipe");
    for (const std::string_view flag : std::vector(head.begin() + 1, head.end())) {
        if (flag == "unpromoted") {
            row.unpromoted = true;
        } else if (flag == "every_lane") {
            row.every_lane = true;
        } else if (!take(groups_words, flag, row.groups) && !take(layout_words, flag, row.layout) &&
                   !take(operands_words, flag, row.operands)) {
            throw std::invalid_argument(fmt::format("got '{}'; expected groups, a layout or operands", flag));
        }
    }
    const std::optional<planner::PlannedTile> tile = planner::parse_tile(trimmed(cells[1]));
    if (!tile) throw std::invalid_argument(fmt::format("got '{}'; expected a tile", trimmed(cells[1])));
    row.tile = *tile;
    if (cells.size() > 3) row.calls = strings(parts(cells[3], ' '));
    if (cells.size() > 4) row.sanitize = trimmed(cells[4]) == "sanitize";
    std::vector<KernelRow> list;
    for (const std::string_view recipes : parts(head[0], ',')) {
        for (const std::string_view serves : parts(cells[2], ' ')) {
            if (!take(serves_words, serves, row.serves))
                throw std::invalid_argument(fmt::format("got '{}'; expected what the kernel serves", serves));
            row.recipes = strings(parts(recipes, '/'));
            row.text = std::string(recipes);
            for (std::size_t i = 1; i < head.size(); ++i) row.text += fmt::format(" {}", head[i]);
            row.text += fmt::format(" | {} | {}", name(row.tile), serves);
            list.push_back(row);
        }
    }
    return list;
}

/// A file's lines: "calls NAME", lines that begin with spaces (calls of that set), "kernel ...", "shipped ...".
void read_file(const std::filesystem::path& path, Matrix& matrix) {
    std::ifstream file(path);
    std::string set;
    int number = 0;
    for (std::string line; std::getline(file, line);) {
        const std::string place = fmt::format("{}:{}", path.filename().string(), ++number);
        const std::string_view text = trimmed(std::string_view(line).substr(0, line.find('#')));
        if (text.empty()) continue;
        try {
            if (line.front() == ' ') {
                if (set.empty()) throw std::invalid_argument("got a call outside of a set");
                matrix.calls[set].push_back({.place = place, .words = strings(parts(text, ' '))});
            } else if (text.starts_with("calls ")) {
                set = trimmed(text.substr(6));
                if (matrix.calls.contains(set)) throw std::invalid_argument("got a set of calls that there is already");
            } else if (text.starts_with("kernel ")) {
                for (KernelRow& row : kernels_of_line(text.substr(7))) {
                    row.place = place;
                    matrix.kernels.push_back(row);
                }
            } else if (text.starts_with("shipped ")) {
                const std::vector<std::string_view> cells = parts(text.substr(8), '|');
                matrix.shipped[std::string(cells.at(0))] = strings(parts(cells.at(1), ' '));
            } else {
                throw std::invalid_argument("got no line of the matrix; expected 'calls', 'kernel' or 'shipped'");
            }
        } catch (const std::exception& error) {
            throw std::invalid_argument(fmt::format("{}: {}", place, error.what()));
        }
    }
}

}  // namespace

Matrix read_matrix(const std::string& folder) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() == ".txt") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    Matrix matrix;
    for (const std::filesystem::path& file : files) read_file(file, matrix);
    return matrix;
}

KernelRow parse_kernel(std::string_view text) { return kernels_of_line(text).at(0); }

std::string_view name(Groups groups) { return spelled(groups_words, groups); }
std::string_view name(Operands operands) { return spelled(operands_words, operands); }
std::string_view name(Serves serves) { return spelled(serves_words, serves); }

}  // namespace tilewright::tests
