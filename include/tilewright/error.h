// The exceptions that the library throws, and the findings that they carry.
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
    std::string advice;    // what to do; may be empty

    /// "b.scales: got [56, 16]; expected [16, 56] for 128x128 scales of b [2048, 7168]. Pass the transposed view."
    std::string message() const;
};

/// The exception of every failing call. `what()` has the messages of all findings, one per line.
class Error : public std::runtime_error {
public:
    explicit Error(const std::string& what) : std::runtime_error(what) {}
    explicit Error(std::vector<Finding> findings);

    /// One finding per mistake in the call. Empty when the call was right and the machine was not (no driver, out of
    /// memory).
    const std::vector<Finding>& findings() const { return findings_; }

private:
    std::vector<Finding> findings_;
};

/// Thrown when the caller's callback ended the call (`RunOptions::cancelled`, `ConversionOptions::cancelled`). The
/// output is then written in part: its other elements keep their old values.
class Cancelled : public Error {
public:
    Cancelled() : Error("cancelled by the caller; the output is written in part") {}
};

}  // namespace tilewright
