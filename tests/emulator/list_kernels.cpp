// Writes source files with the kernels of this build: list_kernels FOLDER PARTS MATRIX SAMPLES
//
// The kernels that ship are in FOLDER/kernels_0.generated.cpp to PARTS / 2 - 1, the others of the matrix in the second
// half. A kernel's file follows only from its expression: a line that is added to the matrix changes one file.
#include "emulator/row_kernel.h"
#include "launch/tile_code.h"
#include "plan/shipped_kernels.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace {

using namespace tilewright;

/// "Tile{...}" of "gemm<Tile{...}>".
std::string tile_expression(const hopper::Kernel& tile) {
    const std::string kernel = launch::kernel_expression(tile);
    const std::size_t begin = kernel.find('<') + 1;
    return kernel.substr(begin, kernel.rfind('>') - begin);
}

std::size_t part_of(const hopper::Kernel& tile, const std::string& expression, std::size_t parts) {
    std::uint64_t hash = 14695981039346656037U;
    for (const char c : expression) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    const auto half = static_cast<std::size_t>(hash % (parts / 2));
    static const std::vector<hopper::Kernel> shipped = planner::shipped_kernels();
    return std::ranges::find(shipped, tile) != shipped.end() ? half : parts / 2 + half;
}

std::string source(std::size_t part, std::size_t parts, const std::vector<hopper::Kernel>& tiles) {
    std::ostringstream text;
    text << "// Written by list_kernels.\n#include \"emulator/instantiate.h\"\n\nnamespace tilewright::tests {\n"
            "template <>\nvoid add_kernels<"
         << part << ">(std::vector<EmulatedKernel>& list) {\n";
    for (const hopper::Kernel& tile : tiles) {
        const std::string expression = tile_expression(tile);
        if (part_of(tile, expression, parts) == part) text << "    add<" << expression << ">(list);\n";
    }
    text << "}\n}  // namespace tilewright::tests\n";
    return text.str();
}

std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int count, char** words) {
    if (count != 5) {
        std::fputs("list_kernels FOLDER PARTS MATRIX SAMPLES\n", stderr);
        return 2;
    }
    try {
        const std::size_t parts = std::stoul(words[2]);
        const std::vector<hopper::Kernel> tiles =
            tests::emulated_tiles(tests::read_matrix(words[3]), std::string(words[4]) == "1");
        for (std::size_t part = 0; part < parts; ++part) {
            const std::string path = std::string(words[1]) + "/kernels_" + std::to_string(part) + ".generated.cpp";
            const std::string text = source(part, parts, tiles);
            if (text == text_of(path)) continue;  // an older file is not compiled again
            std::ofstream file(path);
            file << text;
            if (!file.good()) throw std::runtime_error("cannot write " + path);
        }
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
