// Writes one of `parts` source files with the kernels of kernels.h: list_kernels OUTPUT PART PARTS
#include "emulator/kernels.h"
#include "launch/tile_code.h"

#include <cstdio>
#include <fstream>
#include <string>

namespace {

/// "Tile{...}" of "gemm<Tile{...}>".
std::string tile_expression(const tilewright::hopper::Tile& tile) {
    const std::string kernel = tilewright::launch::kernel_expression(tile);
    const std::size_t begin = kernel.find('<') + 1;
    return kernel.substr(begin, kernel.rfind('>') - begin);
}

}  // namespace

int main(int count, char** words) {
    if (count != 4) {
        std::fputs("list_kernels OUTPUT PART PARTS\n", stderr);
        return 2;
    }
    const std::size_t part = std::stoul(words[2]);
    const std::size_t parts = std::stoul(words[3]);
    const std::vector<tilewright::hopper::Tile> tiles = tilewright::tests::emulated_tiles();
    std::ofstream file(words[1]);
    file << "// Written by list_kernels.\n#include \"emulator/instantiate.h\"\n\nnamespace tilewright::tests {\n"
            "template <>\nvoid add_kernels<"
         << part << ">(std::vector<Kernel>& list) {\n";
    for (std::size_t i = part; i < tiles.size(); i += parts)
        file << "    add<" << tile_expression(tiles[i]) << ">(list);\n";
    file << "}\n}  // namespace tilewright::tests\n";
    return file.good() ? 0 : 1;
}
