// Writes source files with the kernels of this build: list_kernels FOLDER PARTS MATRIX SAMPLES
//
// Products that ship are in FOLDER/kernels_0.generated.cpp to PARTS / 2 - 1, the others of the matrix in the second
// half. A kernel's file follows only from its expression: a line that is added to the matrix changes one file. The
// kernels that are not products are in a file for each of their programs, FOLDER/others_0.generated.cpp and further
// ones.
#include "emulator/other_kernels.h"
#include "emulator/row_kernel.h"
#include "launch/kernels.h"
#include "plan/shipped_kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
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
    const std::size_t half = std::hash<std::string>{}(expression) % (parts / 2);
    static const std::vector<hopper::Kernel> shipped = planner::shipped_kernels();
    return std::ranges::find(shipped, tile) != shipped.end() ? half : parts / 2 + half;
}

std::string source(std::size_t part, std::size_t parts, const std::vector<hopper::Kernel>& tiles) {
    std::ostringstream text;
    text << "// Written by list_kernels.\n#include \"emulator/instantiate.h\"\n\nnamespace tilewright::tests {\n"
            "template <>\nvoid add_kernels<"
         << part << ">([[maybe_unused]] std::vector<EmulatedKernel>& list) {\n";
    for (const hopper::Kernel& tile : tiles) {
        const std::string expression = tile_expression(tile);
        if (part_of(tile, expression, parts) == part) text << "    add<" << expression << ">(list);\n";
    }
    text << "}\n}  // namespace tilewright::tests\n";
    return text.str();
}

/// The device's numbers, the last line of a program, are the emulator's here.
std::string source_of_others(std::size_t part, const std::string& program) {
    std::set<std::string> calls;
    for (const launch::OtherKernel& kernel : tests::other_kernels()) {
        if (launch::source_of(kernel) != program) continue;
        const std::string expression = launch::kernel_expression(kernel);
        calls.insert(fmt::format("    add(all, \"{}\", {});\n", expression, expression));
    }
    return fmt::format(
        "// Written by list_kernels.\n#include \"emulator/other_functions.h\"\n{}#include "
        "\"emulator/primitives.h\"\n\nnamespace tilewright::tests {{\ntemplate <>\n"
        "void add_others<{}>(OtherFunctions& all) {{\n{}}}\n}}  // namespace tilewright::tests\n",
        program.substr(0, program.find("#include \"hopper/ptx/")), part, fmt::join(calls, ""));
}

/// An older file with the same text is not compiled again.
void write(const std::string& path, const std::string& text) {
    std::ifstream old(path);
    if (text == std::string{std::istreambuf_iterator<char>(old), {}}) return;
    std::ofstream file(path);
    file << text;
    if (!file.good()) throw std::runtime_error("cannot write " + path);
}

}  // namespace

int main(int count, char** words) {
    if (count != 4) {
        std::fputs("list_kernels FOLDER PARTS MATRIX\n", stderr);
        return 2;
    }
    try {
        const std::size_t parts = std::stoul(words[2]);
        const std::vector<hopper::Kernel> tiles = tests::emulated_tiles(tests::read_matrix(words[3]));
        const std::string folder = words[1];
        for (std::size_t part = 0; part < parts; ++part) {
            write(fmt::format("{}/kernels_{}.generated.cpp", folder, part), source(part, parts, tiles));
        }
        for (std::size_t part = 0; const char* program : tests::other_programs) {
            write(fmt::format("{}/others_{}.generated.cpp", folder, part), source_of_others(part, program));
            ++part;
        }
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
