// The gates of gates.h as accumulators: regions come in in any order, a report comes out.
#pragma once

#include "check/gates.h"
#include "check/limits.h"
#include "formats/codec.h"

#include <functional>
#include <map>

namespace tilewright::check {

class GateBase {
public:
    explicit GateBase(Gate gate) { report_.gate = gate; }
    virtual ~GateBase() = default;
    GateBase(const GateBase&) = delete;
    GateBase& operator=(const GateBase&) = delete;
    virtual void add(const Geometry& g, const Region& region, const Expected& expected) = 0;
    virtual GateReport report() { return report_; }

protected:
    struct Finding {
        bool failed = false;
        double given = 0;
        double expected = 0;
        double error = 0;
        double bound = 0;
        double ratio = 0;
        std::function<std::string()> where;
    };
    struct BitFinding {
        const formats::Fields& fields;
        std::uint32_t want = 0;
        std::uint32_t have = 0;
        bool same = false;
        const Region& region;
        std::int64_t i = 0;
        std::int64_t j = 0;
    };
    void count(const Finding& finding);
    void count_bits(const BitFinding& finding);

private:
    GateReport report_;
};

class ExactGridGate : public GateBase {
public:
    ExactGridGate() : GateBase(Gate::exact_grid) {}
    void add(const Geometry& g, const Region& region, const Expected& expected) override;
};

class EmulationGate : public GateBase {
public:
    EmulationGate() : GateBase(Gate::emulation) {}
    void add(const Geometry& g, const Region& region, const Expected& expected) override;
};

class RunningBoundGate : public GateBase {
public:
    explicit RunningBoundGate(Arithmetic arithmetic) : GateBase(Gate::running_bound), arithmetic_(arithmetic) {}
    void add(const Geometry& g, const Region& region, const Expected& expected) override;

private:
    static double fast_bound(double magnitude, std::int64_t k);
    static double output_bound(Format output, double exact, double sum_bound);
    static double given_error(Format output, double given, double exact, double bound);

    Arithmetic arithmetic_;
};

class AggregateGate : public GateBase {
public:
    explicit AggregateGate(Arithmetic arithmetic) : GateBase(Gate::aggregates), arithmetic_(arithmetic) {}
    void add(const Geometry& g, const Region& region, const Expected& expected) override;
    GateReport report() override;

private:
    static constexpr std::int64_t full_score = 1024;  // fewer elements are judged by the limits of a row

    struct Score {
        std::int64_t elements = 0;
        std::int64_t k = 0;
        double errors = 0;      // sum of squares
        double squares = 0;     // of the exact values
        double roundings = 0;   // of the exact value's own rounding to the output
        double sizes = 0;       // sum of |exact|
        double magnitudes = 0;  // sum of |a b|

        void add(Format output, double given, double exact, double magnitude_of_sum);
        void add(const Score& other);
        double relative() const;
    };
    void judge(const Score& score, bool as_row, const std::function<std::string()>& where);

    Arithmetic arithmetic_;
    Format output_ = Format::f32;
    ErrorClass class_ = ErrorClass::fp32;
    std::map<std::int64_t, Score> groups_;
};

}  // namespace tilewright::check
