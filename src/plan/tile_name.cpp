// The one spelling of a tile: in explanations, tuned rows and tests.
#include <fmt/format.h>

#include <array>
#include <charconv>

#include "plan/planned_tile.h"
#include "plan/tsv.h"

namespace tilewright::planner {
namespace {

struct NumberWord {
    std::string_view word;
    int PlannedTile::*field;
};

constexpr std::array number_words{
    NumberWord{"stages", &PlannedTile::stages}, NumberWord{"warpgroups", &PlannedTile::warpgroups},
    NumberWord{"cluster", &PlannedTile::cluster}, NumberWord{"split", &PlannedTile::split_k}};

bool parse_positive(std::string_view text, int& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() && value > 0;
}

bool parse_block(std::string_view text, PlannedTile& tile) {
    const std::vector<std::string_view> sizes = split(text, 'x');
    return sizes.size() == 3 && parse_positive(sizes[0], tile.m) && parse_positive(sizes[1], tile.n) &&
           parse_positive(sizes[2], tile.k);
}

bool parse_multicast(std::string_view text, PlannedTile& tile) {
    if (text != "a" && text != "b") return false;
    tile.multicast = text == "a" ? Multicast::a : Multicast::b;
    return true;
}

bool parse_word(std::string_view text, PlannedTile& tile) {
    if (text == "swap") {
        tile.swap_ab = true;
        return true;
    }
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) return parse_block(text, tile);
    const std::string_view word = text.substr(0, equals);
    const std::string_view value = text.substr(equals + 1);
    if (word == "multicast") return parse_multicast(value, tile);
    for (const NumberWord& number : number_words) {
        if (word == number.word) return parse_positive(value, tile.*number.field);
    }
    return false;
}

}  // namespace

std::string name(const PlannedTile& tile) {
    constexpr PlannedTile usual;
    std::string text = fmt::format("{}x{}x{} stages={}", tile.m, tile.n, tile.k, tile.stages);
    if (tile.warpgroups != usual.warpgroups) text += fmt::format(" warpgroups={}", tile.warpgroups);
    if (tile.cluster != tile.split_k) text += fmt::format(" cluster={}", tile.cluster);
    if (tile.multicast != usual.multicast) text += tile.multicast == Multicast::a ? " multicast=a" : " multicast=b";
    if (tile.swap_ab) text += " swap";
    if (tile.split_k != usual.split_k) text += fmt::format(" split={}", tile.split_k);
    return text;
}

std::optional<PlannedTile> parse_tile(std::string_view text) {
    PlannedTile tile;
    bool block_given = false;
    for (std::string_view word : split(text, ' ')) {
        if (!parse_word(word, tile)) return std::nullopt;
        block_given = block_given || (word.find('=') == std::string_view::npos && word != "swap");
    }
    if (tile.split_k > 1 && tile.cluster == 1) tile.cluster = tile.split_k;  // a block of a cluster for each slice
    return block_given ? std::optional(tile) : std::nullopt;
}

PlannedTile planned_tile(const Plan& plan) { return parse_tile(plan.tile).value(); }

}  // namespace tilewright::planner
