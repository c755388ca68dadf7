// Findings of the library in the words of Python's callers.
#pragma once

#include <tilewright/error.h>

#include <string>

namespace tilewright::python {

/// `text` with every whole word `from` as `to`.
std::string with_word(std::string text, const std::string& from, const std::string& to);

/// The same in every text of the finding.
void replace_word(Finding& finding, const std::string& from, const std::string& to);

/// The library's enumeration of reproducibility is a flag in Python, `invariant`.
void name_the_flag(Finding& finding);

}  // namespace tilewright::python
