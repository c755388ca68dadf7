#include <tilewright/problem.h>

namespace tilewright {

std::string Finding::message() const {
    std::string text = operand + ": " + given + " given, " + expected + " expected";
    if (!advice.empty()) text += "; " + advice;
    return text;
}

std::vector<Finding> validate(const Problem&, Backend, Check) { return {}; }

}  // namespace tilewright
