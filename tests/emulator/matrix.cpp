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

/// "RECIPES FLAGS": the fields of a kernel that its recipes share; `words` are those of the text.
KernelRow row_of_head(const std::vector<std::string_view>& words) {
    KernelRow row;
    for (const std::string_view flag : std::vector(words.begin() + 1, words.end())) {
        if (flag == "unpromoted") {
            row.unpromoted = true;
        } else if (flag == "every_lane") {
            row.every_lane = true;
        } else if (flag == "sanitize") {
            row.sanitize = true;
            continue;
        } else if (!take(groups_words, flag, row.groups) && !take(layout_words, flag, row.layout) &&
                   !take(operands_words, flag, row.operands)) {
            throw std::invalid_argument(fmt::format("got '{}'; expected groups, a layout or operands", flag));
        }
        row.text += fmt::format(" {}", flag);
    }
    return row;
}

/// "HEADS | TILES | SERVES | CALLS | REASON": a kernel for each recipe of a head, tile and word of SERVES.
std::vector<KernelRow> kernels_of_line(std::string_view line) {
    const std::vector<std::string_view> cells = planner::split(line, '|');
    if (cells.size() < 3) throw std::invalid_argument("got too few cells; expected recipe, tile and what it serves");
    std::vector<KernelRow> list;
    for (const std::string_view head : parts(cells[0], ';')) {
        const std::vector<std::string_view> words = parts(head, ' ');
        const KernelRow shared = row_of_head(words);
        for (const std::string_view tile : parts(cells[1], ';')) {
            const std::optional<planner::PlannedTile> parsed = planner::parse_tile(tile);
            if (!parsed) throw std::invalid_argument(fmt::format("got '{}'; expected a tile", tile));
            for (const std::string_view recipes : parts(words[0], ',')) {
                for (const std::string_view serves : parts(cells[2], ' ')) {
                    KernelRow row = shared;
                    if (!take(serves_words, serves, row.serves))
                        throw std::invalid_argument(fmt::format("got '{}'; expected what the kernel serves", serves));
                    row.recipes = strings(parts(recipes, '/'));
                    row.tile = *parsed;
                    row.text = fmt::format("{}{} | {} | {}", recipes, shared.text, name(row.tile), serves);
                    if (cells.size() > 3) row.calls = strings(parts(cells[3], ' '));
                    list.push_back(row);
                }
            }
        }
    }
    if (list.empty()) throw std::invalid_argument("got no kernel; expected a recipe, a tile and what it serves");
    return list;
}

/// A file's lines: "calls NAME | WORDS", "kernel ...", "shipped ...", and lines that begin with spaces: calls of the
/// set or of the kernels before them, between bars.
void read_file(const std::filesystem::path& path, Matrix& matrix) {
    std::ifstream file(path);
    std::string set;
    std::vector<std::string> shared;  // words of all calls of the set
    int number = 0;
    for (std::string line; std::getline(file, line);) {
        const std::string place = fmt::format("{}:{}", path.filename().string(), ++number);
        const std::string_view text = trimmed(std::string_view(line).substr(0, line.find('#')));
        if (text.empty()) continue;
        try {
            if (line.front() == ' ') {
                if (set.empty()) throw std::invalid_argument("got a call outside of a set");
                for (KernelRow& row : matrix.kernels) {
                    if (row.place == set && !matrix.calls.contains(set)) row.calls.push_back(set);
                }
                for (const std::string_view call : parts(text, '|')) {
                    CallRow row{.place = place, .words = shared};
                    for (const std::string_view word : parts(call, ' ')) row.words.emplace_back(word);
                    matrix.calls[set].push_back(row);
                }
                continue;
            }
            const std::vector<std::string_view> cells = parts(text.substr(std::min(text.find(' '), text.size())), '|');
            shared.clear();
            set.clear();
            if (text.starts_with("calls ")) {
                set = cells.at(0);
                if (cells.size() > 1) shared = strings(parts(cells[1], ' '));
                if (matrix.calls.contains(set)) throw std::invalid_argument("got a set of calls that there is already");
            } else if (text.starts_with("kernel ")) {
                set = place;
                for (KernelRow& row : kernels_of_line(text.substr(7))) {
                    row.place = place;
                    matrix.kernels.push_back(row);
                }
            } else if (text.starts_with("shipped ")) {
                for (const std::string_view kernels : parts(cells.at(0), ';'))
                    matrix.shipped[std::string(kernels)] = strings(parts(cells.at(1), ' '));
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
