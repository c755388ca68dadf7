// The names of a layer's enumerations, as messages and Python have them.
#include <tilewright/expert_group.h>

namespace tilewright {

std::string_view name(GatedUnit::Kind kind) {
    switch (kind) {
        case GatedUnit::Kind::swiglu: return "swiglu";
        case GatedUnit::Kind::situ: return "situ";
        case GatedUnit::Kind::geglu: return "geglu";
        case GatedUnit::Kind::relu_squared: return "relu_squared";
    }
    return "an unknown unit";
}

std::string_view name(WeightsAt place) {
    switch (place) {
        case WeightsAt::combine: return "combine";
        case WeightsAt::activation: return "activation";
        case WeightsAt::input: return "input";
    }
    return "an unknown place";
}

std::string_view name(Exchange exchange) {
    switch (exchange) {
        case Exchange::automatic: return "automatic";
        case Exchange::collectives: return "collectives";
        case Exchange::addresses: return "addresses";
    }
    return "an unknown exchange";
}

std::string_view name(RankSums sums) {
    switch (sums) {
        case RankSums::automatic: return "automatic";
        case RankSums::rows: return "rows";
        case RankSums::sums: return "sums";
    }
    return "an unknown form of sums";
}

}  // namespace tilewright
