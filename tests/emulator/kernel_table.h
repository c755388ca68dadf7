// The tables that open src/hopper/gemm.h, as text, and the words they use for roles.
#pragma once

#include "hopper/description/roles.h"

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace tilewright::hopper {

using Row = std::vector<std::string>;

inline std::string trimmed(const std::string& text) {
    const std::size_t first = text.find_first_not_of(' ');
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// The rows of the table of a file's comment that begins with the column `head`, by their first cell.
inline std::map<std::string, Row> table(const char* path, const std::string& head) {
    std::ifstream file(path);
    std::map<std::string, Row> rows;
    std::size_t columns = 0;
    for (std::string line; std::getline(file, line);) {
        Row cells;
        std::istringstream text(line.substr(0, 3) == "// " ? line.substr(3) : "");
        for (std::string cell; std::getline(text, cell, '|');) cells.push_back(trimmed(cell));
        if (cells.size() > 1 && cells[0] == head) {
            columns = cells.size();
            continue;
        }
        if (columns == 0) continue;
        if (cells.size() != columns) return rows;
        rows[cells[0]] = cells;
    }
    return rows;
}

inline const char* word(Role role) {
    constexpr const char* words[] = {"load", "scheduler_and_scales", "row_scales", "store", "spare", "multiply"};
    return words[static_cast<int>(role)];
}

}  // namespace tilewright::hopper
