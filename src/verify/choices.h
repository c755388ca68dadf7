// Every value that the choices of a call have: operation, layout, output, arithmetic.
#pragma once

#include <tilewright/problem.h>

#include <vector>

namespace tilewright::verify {

const std::vector<Grouping>& all_groupings();
const std::vector<Layout>& all_layouts();
const std::vector<Format>& all_outputs();
const std::vector<Arithmetic>& all_arithmetics();

}  // namespace tilewright::verify
