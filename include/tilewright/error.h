// The exceptions of the library, and the findings that it carries.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace tilewright {

/// One mistake in a call.
struct Finding {
    std::string operand;   // "b.scales"
    std::string given;     // "[56, 16]"
    std::string expected;  // "[16, 56] for 128x128 scales of b [2048, 7168]"
    std::string advice;    // what to do, e.g. "pass the transposed view"; may be empty

    /// "b.scales: got [56, 16]; expected [16, 56] for 128x128 scales of b [2048, 7168]. Pass the transposed view."
    std::string message() const;
};

/// What went wrong, with all findings when the call itself was at fault.
class Error : public std::runtime_error {
public:
    explicit Error(const std::string& what) : std::runtime_error(what) {}
    explicit Error(std::vector<Finding> findings);

    /// Empty when the call was right and the machine was not (no driver, out of memory).
    const std::vector<Finding>& findings() const { return findings_; }

private:
    std::vector<Finding> findings_;
};

/// The caller's callback ended the call (`RunOptions::cancelled`). Some of the output is written, the rest is as it
/// was.
class Cancelled : public Error {
public:
    Cancelled() : Error("cancelled by the caller; the output is written in part") {}
};

}  // namespace tilewright
