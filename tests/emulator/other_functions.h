// The functions of kernels that are not products, by the expression under which NVRTC would compile them. A program of
// the build (list_kernels.cpp) writes the list of instantiations from that of list_others.cpp.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <typeindex>
#include <typeinfo>

namespace tilewright::tests {

struct OtherFunction {
    std::type_index arguments = typeid(void);  // the type to which `run` takes a pointer
    std::function<void(const void*)> run{};
};
using OtherFunctions = std::map<std::string, OtherFunction>;

template <class Arguments>
void add(OtherFunctions& functions, const char* expression, void (*function)(Arguments)) {
    functions[expression] = {
        typeid(Arguments), [function](const void* arguments) { function(*static_cast<const Arguments*>(arguments)); }};
}

/// The kernels of one of the generated files. They are apart because hopper::scale_lanes has two meanings: no file can
/// include both the headers of packers and those of layers.
template <int program>
void add_others(OtherFunctions& functions);

}  // namespace tilewright::tests
