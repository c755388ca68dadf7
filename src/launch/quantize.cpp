#include "launch/quantize.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/math.h"
#include "formats/matrix_view.h"
#include "formats/swiglu.h"
#include "launch/quantize_views.h"

namespace tilewright::launch {
namespace {

using namespace hopper;
using formats::matrix_view;
using formats::MatrixView;

bool stores_vectors(const CopyArguments& to, bool transposed) {
    const i64 adjacent = transposed ? to.token_stride : to.feature_stride;
    const i64 other = transposed ? to.feature_stride : to.token_stride;
    return adjacent == 1 && is_aligned(to.codes, {other, to.group_stride});
}

/// An operand in terms of the matrix of tokens and features.
struct Copy {
    CopySpec spec{};
    CopyArguments arguments{};
    int scale_groups = 1;
};

ScaledBy scaled_by(Granularity granularity, bool turned) {
    switch (granularity) {
        case Granularity::row: return turned ? ScaledBy::feature : ScaledBy::token;
        case Granularity::block_1x128: return turned ? ScaledBy::feature_block : ScaledBy::token_block;
        case Granularity::block_128x128: return ScaledBy::square;
        default: return ScaledBy::all;
    }
}

/// `turned`: the operand's rows are features.
Copy copy_of(const Operand& operand, bool turned, bool transposed, bool round_up) {
    const MatrixView values = matrix_view(operand.values);
    const Dims& scales = operand.scales.shape;
    const bool ue8m0 = operand.scales.format == Format::ue8m0;
    return {.spec = {.scaled = scaled_by(operand.granularity, turned),
                     .storage = operand.values.format == Format::e4m3 ? ValueFormat::e4m3 : ValueFormat::e5m2,
                     .powers = round_up || ue8m0,
                     .ue8m0 = ue8m0,
                     .transposed = transposed},
            .arguments = {.codes = reinterpret_cast<u8*>(values.data),
                          .group_stride = values.group_stride,
                          .token_stride = turned ? values.column_stride : values.row_stride,
                          .feature_stride = turned ? values.row_stride : values.column_stride,
                          .columns = turned ? values.columns : values.rows,
                          .scales = scale_matrix(operand, turned)},
            .scale_groups = scales.rank() > scale_dims(operand.granularity) ? static_cast<int>(scales[0]) : 1};
}

void set_factors(const TokenOperand& given, Copy& copy) {
    FoldFactors& factors = copy.arguments.factors;
    copy.spec.token_factors = given.token_factors.given();
    factors.tokens = static_cast<const float*>(given.token_factors.data);
    factors.token_stride = stride(given.token_factors, 0);
    copy.spec.feature_factors = given.feature_factors.given();
    factors.features = static_cast<const float*>(given.feature_factors.data);
    factors.feature_stride = stride(given.feature_factors, 0);
    factors.feature_group_stride = stride(given.feature_factors, 1);
}

void set_ends(const Tensor& ends, QuantizeArguments& arguments) {
    if (!ends.given()) return;
    arguments.ends = ends.data;
    arguments.ends_stride = static_cast<int>(ends.strides[0]);
    arguments.ends_are_wide = ends.format == Format::i64;
    arguments.groups = static_cast<int>(ends.shape[0]);
}

/// Tiles of all groups; with ends, the largest possible number.
int count_blocks(const QuantizeArguments& arguments, bool grouped) {
    const std::int64_t limit = column_limit(arguments.tokens, arguments.groups) / quantize_block;
    return arguments.feature_tiles * (grouped ? static_cast<int>(limit) : arguments.groups * arguments.strips);
}

/// The fields that `measure` needs of an operand: kernels that differ only in value formats measure alike.
CopySpec measured_spec(const CopySpec& copy) {
    if (!is_measured(copy)) return {};
    return {.scaled = copy.scaled,
            .transposed = copy.transposed,
            .token_factors = copy.token_factors,
            .feature_factors = copy.feature_factors};
}

/// Whether a block computes a tile of gates and a tile of ups, which share their sigmoids. The ups must begin a tile.
/// Excluded are measured scales and factors, because h is computed again for them.
bool is_paired(const CallOf<Quantize>& call, const std::vector<Copy>& copies) {
    const Quantizer& q = call.kernel.spec;
    if (q.formula != Formula::swiglu_gradient || q.interleaved || !q.vectors) return false;
    if (call.arguments.features % (2 * quantize_block) != 0) return false;
    return std::ranges::none_of(copies,
                                [](const Copy& each) { return is_measured(each.spec) || has_factors(each.spec); });
}

/// Moves factors of tokens that all operands share to h, which is then computed once. The bits stay.
void share_factors(CallOf<Quantize>& call, std::vector<Copy>& copies) {
    if (call.kernel.spec.formula == Formula::x || copies.empty()) return;
    const FoldFactors shared = copies.front().arguments.factors;
    const bool are_same = std::ranges::all_of(copies, [&](const Copy& copy) {
        const FoldFactors& own = copy.arguments.factors;
        return own.tokens == shared.tokens && own.token_stride == shared.token_stride && own.features == nullptr;
    });
    if (!are_same || shared.tokens == nullptr) return;
    call.arguments.h_factors = shared.tokens;
    call.arguments.h_factor_stride = shared.token_stride;
    for (Copy& copy : copies) {
        copy.arguments.factors = {};
        copy.spec.token_factors = false;
    }
}

void set_later(const Quantizer& quantizer, QuantizeArguments& arguments) {
    if (arguments.feature_tiles == 0) return;
    arguments.later_tokens = later_blocks(quantizer) / arguments.feature_tiles * quantize_block;
    arguments.later_features = later_blocks(quantizer) % arguments.feature_tiles * quantize_block;
}

std::vector<OtherLaunch> launches(CallOf<Quantize> call, const std::vector<Copy>& copies, bool aligned_source) {
    Quantizer& spec = call.kernel.spec;
    QuantizeArguments& arguments = call.arguments;
    spec.vectors = aligned_source && arguments.features % lane_features == 0 &&
                   std::ranges::all_of(
                       copies, [](const Copy& copy) { return stores_vectors(copy.arguments, copy.spec.transposed); });
    spec.paired = is_paired(call, copies);
    arguments.feature_tiles = ceil_div(spec.paired ? arguments.features / 2 : arguments.features, quantize_block);
    const int blocks = count_blocks(arguments, spec.grouped);
    std::vector<OtherLaunch> all;
    std::vector<OtherLaunch> after;
    for (const Copy& copy : copies) {
        if (!is_measured(copy.spec)) continue;
        const MeasuredScales scales{.scales = copy.arguments.scales,
                                    .groups = copy.scale_groups,
                                    .tokens = copy.spec.scaled == ScaledBy::token ? arguments.tokens : 1,
                                    .features = copy.spec.scaled == ScaledBy::feature ? arguments.features : 1};
        const std::int64_t count = std::int64_t{scales.groups} * scales.tokens * scales.features;
        const int scale_blocks = static_cast<int>(ceil_div<std::int64_t>(count, quantize_threads));
        const FinishScales finish{{.scaled = ScaledBy::all, .storage = copy.spec.storage, .powers = copy.spec.powers}};
        all.push_back(launch_of(ClearScales{}, scales, scale_blocks));
        after.push_back(launch_of(finish, scales, scale_blocks));
    }
    for (std::size_t i = 0; i < copies.size(); ++i) {
        (i == 0 ? spec.rows : spec.columns) = copies[i].spec;
        (i == 0 ? arguments.rows : arguments.columns) = copies[i].arguments;
    }
    set_later(spec, arguments);
    if (!after.empty()) {
        Measure measure{spec};
        measure.spec.rows = measured_spec(spec.rows);
        measure.spec.columns = measured_spec(spec.columns);
        all.push_back(launch_of(measure, arguments, blocks));
        all.insert(all.end(), after.begin(), after.end());
    }
    all.push_back(launch_of(call.kernel, arguments, blocks));
    return without_empty(std::move(all));
}

/// The reason that sizes are beyond the kernels' indices; empty if they are not. `columns` are those that are written.
std::string beyond_indices(std::int64_t groups, std::int64_t rows, std::int64_t features, std::int64_t columns) {
    const std::int64_t tiles = groups * ceil_div<std::int64_t>(rows, 128) * ceil_div<std::int64_t>(features, 128);
    if (std::max({rows, features, columns, tiles}) > most_indices) {
        return "at most 2^30 rows and columns and 2^30 tiles of 128 x 128";
    }
    return "";
}

/// Makes the dimension that is adjacent in memory the features. Returns whether these were the rows.
bool turn(MatrixView& x) {
    const bool turned = x.row_stride == 1 && x.column_stride != 1;
    if (turned) {
        std::swap(x.rows, x.columns);
        std::swap(x.row_stride, x.column_stride);
    }
    return turned;
}

/// The fields of the input, without groups of tokens. The strides of dimensions of one index have no effect.
QuantizeArguments grid(MatrixView x) {
    if (x.groups == 1) x.group_stride = 0;
    if (x.rows == 1) x.row_stride = 0;
    QuantizeArguments arguments;
    arguments.x = source_matrix(x);
    arguments.groups = static_cast<int>(x.groups);
    set_sizes(arguments, x.rows, x.columns);
    return arguments;
}

// ---- MXFP8, MXFP4 and NVFP4: scales are shared by 32 or 16 elements of k (hopper/quantize/short_blocks.h)

constexpr bool has_short_blocks(Granularity granularity) {
    return granularity == Granularity::block_1x32 || granularity == Granularity::block_1x16;
}

BlockFormat block_format(const Operand& out) {
    if (out.granularity == Granularity::block_1x16) return BlockFormat::nvfp4;
    if (out.values.format == Format::e2m1) return BlockFormat::mxfp4;
    return out.values.format == Format::e5m2 ? BlockFormat::mxfp8_e5m2 : BlockFormat::mxfp8_e4m3;
}

ScaleMatrix tensor_scales(const Operand& out) {
    return {.data = out.tensor_scale.data, .group_stride = stride(out.tensor_scale, 0)};
}

std::int64_t tiles(const MatrixView& x) {
    return x.groups * ceil_div<std::int64_t>(x.rows, short_tile_rows(number(x.format))) *
           ceil_div<std::int64_t>(x.columns, short_tile_k);
}

OtherLaunch quantize_blocks(const MatrixView& x, const Operand& out, bool round_up) {
    BlockSpec spec{.source = number(x.format), .format = block_format(out), .round_up = round_up};
    BlockArguments arguments;
    arguments.grid = grid(x);
    arguments.grid.rows = copy_of(out, false, false, false).arguments;
    arguments.grid.feature_tiles = ceil_div(arguments.grid.features, short_tile_k);
    arguments.row_tiles = ceil_div(arguments.grid.tokens, short_tile_rows(spec.source));
    arguments.tensor_scales = tensor_scales(out);
    CopyArguments& to = arguments.grid.rows;
    if (x.groups == 1) to.group_stride = 0;
    // If both dimensions could be packed, it is k.
    arguments.pairs_of_rows = is_fp4(spec) && (to.feature_stride != 1 || x.columns % 2 != 0);
    if (x.rows == 1) to.token_stride = 0;
    // 16 codes are stored at once; e2m1 in 8 bytes. Strides are in codes.
    const bool whole_stores = to.feature_stride == 1 && to.token_stride % lane_features == 0 &&
                              to.group_stride % lane_features == 0 &&
                              is_aligned(to.codes, {}, is_fp4(spec) ? lane_features / 2 : lane_features);
    spec.vectors =
        takes_vectors(arguments.grid.x, bits(x.format) / 8) && x.columns % lane_features == 0 && whole_stores;
    return launch_of(QuantizeBlocks{spec}, arguments, static_cast<int>(tiles(x)));
}

/// Finds the largest magnitude of each tensor, by the kernel that finds those of per-tensor scales.
OtherLaunch measure(MatrixView x, const ScaleMatrix& scales) {
    turn(x);
    QuantizeArguments arguments = grid(x);
    arguments.rows.scales = scales;
    const Measure kernel{{.source = number(x.format),
                          .vectors = takes_vectors(arguments.x, bits(x.format) / 8) && x.columns % lane_features == 0,
                          .rows = {.scaled = ScaledBy::all}}};
    return launch_of(kernel, arguments, arguments.groups * arguments.strips * arguments.feature_tiles);
}

std::vector<OtherLaunch> lower_short_blocks(const Tensor& source, const Operand& out, bool round_up) {
    const MatrixView x = matrix_view(source);
    std::vector<OtherLaunch> launches;
    if (out.granularity == Granularity::block_1x16) {
        const MeasuredScales scales{.scales = tensor_scales(out),
                                    .groups = static_cast<int>(out.tensor_scale.shape[0])};
        const int blocks = ceil_div(scales.groups, quantize_threads);
        launches.push_back(launch_of(ClearScales{}, scales, blocks));
        launches.push_back(measure(x, scales.scales));
        launches.push_back(launch_of(FinishTensorScales{{.round_up = round_up}}, scales, blocks));
    }
    launches.push_back(quantize_blocks(x, out, round_up));
    return without_empty(std::move(launches));
}

}  // namespace

std::vector<OtherLaunch> lower(const TokenSource& source, const TokenOperand& rows, const TokenOperand& columns,
                               bool round_up) {
    CallOf<Quantize> call;
    Quantizer& spec = call.kernel.spec;
    QuantizeArguments& arguments = call.arguments;
    const MatrixView x = matrix_view(source.x);
    const bool swiglu = source.activation != Activation::none;
    const bool interleaved = swiglu && source.swiglu.interleaved;
    spec.source = number(x.format);
    spec.formula = source.activation == Activation::swiglu            ? Formula::swiglu
                   : source.activation == Activation::swiglu_gradient ? Formula::swiglu_gradient
                                                                      : Formula::x;
    spec.interleaved = interleaved;
    spec.grouped = source.ends.given();
    const std::int64_t bytes = bits(x.format) / 8;
    arguments.x = arguments.up = source_matrix(x);
    bool aligned = takes_vectors(arguments.x, bytes);
    if (swiglu) {
        if (x.data != nullptr) arguments.up.data = x.at(0, 0, interleaved ? 1 : x.columns / 2);
        aligned = aligned && x.columns / 2 % lane_features == 0;
    }
    if (source.activation == Activation::swiglu_gradient) {
        arguments.gradient = source_matrix(matrix_view(source.gradient));
        aligned = aligned && takes_vectors(arguments.gradient, bytes);
    }
    set_ends(source.ends, arguments);
    set_sizes(arguments, source.index.given() ? source.index.shape[0] : x.rows,
              source.activation == Activation::swiglu ? x.columns / 2 : x.columns);
    if (source.index.given()) {
        arguments.index = static_cast<const int*>(source.index.data);
        arguments.index_stride = stride(source.index, 0);
        arguments.x_rows = static_cast<int>(x.rows);
    }
    arguments.alpha = source.swiglu.alpha;
    arguments.beta = source.swiglu.beta;
    arguments.limit = formats::limit_of(source.swiglu.limit);
    std::vector<Copy> copies;
    for (const TokenOperand* side : {&rows, &columns}) {
        if (!side->operand.values.given()) continue;
        copies.push_back(copy_of(side->operand, side == &columns, side == &columns, round_up));
        set_factors(*side, copies.back());
    }
    share_factors(call, copies);
    return launches(call, copies, aligned);
}

std::vector<OtherLaunch> lower(const Tensor& source, const Operand& out, bool round_up) {
    if (has_short_blocks(out.granularity)) return lower_short_blocks(source, out, round_up);
    CallOf<Quantize> call;
    QuantizeArguments& arguments = call.arguments;
    MatrixView x = matrix_view(source);
    const MatrixView values = matrix_view(out.values);
    const bool turned = turn(x);
    const bool transposed = (turned ? values.column_stride : values.row_stride) == 1 &&
                            (turned ? values.row_stride : values.column_stride) != 1;
    call.kernel.spec.source = number(x.format);
    arguments = grid(x);
    return launches(call, {copy_of(out, turned, transposed, round_up)}, takes_vectors(arguments.x, bits(x.format) / 8));
}

std::vector<OtherLaunch> lower_transposition(const Operand& rows, const Tensor& ends, const Operand& columns) {
    TransposeArguments arguments;
    const MatrixView codes = matrix_view(rows.values);
    const Copy from = copy_of(rows, false, false, false), to = copy_of(columns, true, true, false);
    arguments.codes = source_matrix(codes);
    arguments.scales = from.arguments.scales;
    arguments.to = to.arguments;
    set_ends(ends, arguments.grid);
    set_sizes(arguments.grid, codes.rows, codes.columns);
    const bool aligned_columns = stores_vectors(arguments.to, true);
    TransposeSpec spec{.shifted = false, .grouped = ends.given(), .vectors = aligned_columns};
    if (rows.granularity != Granularity::none) {
        spec = {.storage = to.spec.storage,
                .ue8m0 = from.spec.ue8m0,
                .stores_ue8m0 = to.spec.ue8m0,
                .squares = to.spec.scaled == ScaledBy::square,
                .grouped = ends.given(),
                .vectors = takes_vectors(arguments.codes, 1) && aligned_columns && codes.columns % lane_features == 0};
    }
    return without_empty({launch_of(TransposeCodes{spec}, arguments, count_blocks(arguments.grid, ends.given()))});
}

std::vector<OtherLaunch> lower_groups(const Tensor& ends, std::int64_t tokens, const Tensor& column_ends,
                                      const Tensor& d) {
    constexpr std::int64_t most_blocks = 264;  // two per SM
    GroupArguments arguments;
    int blocks = 1;
    set_ends(ends, arguments.tokens);
    arguments.tokens.tokens = static_cast<int>(tokens);
    arguments.column_ends = static_cast<u32*>(column_ends.data);
    if (d.given() && ends.given()) {
        const std::int64_t bytes = bits(d.format) / 8;
        arguments.rows = static_cast<u8*>(d.data);
        arguments.row_stride = d.strides[0] * bytes;
        arguments.row_bytes = d.shape[1] * bytes;
        blocks =
            static_cast<int>(std::clamp<std::int64_t>(ceil_div<std::int64_t>(tokens, quantize_warps), 1, most_blocks));
    }
    if (arguments.rows == nullptr && arguments.column_ends == nullptr) return {};
    return {launch_of(FinishGroups{}, arguments, blocks)};
}

std::string unserved(const Tensor& x, std::int64_t columns) {
    const MatrixView view = matrix_view(x);
    return beyond_indices(view.groups, view.rows, view.columns, columns);
}

std::string unserved(const TokenSource& source, std::int64_t columns) {
    const std::int64_t tokens = source.index.given() ? source.index.shape[0] : 0;
    return beyond_indices(1, std::max(tokens, source.x.shape[0]), source.x.shape[1], columns);
}

std::string unserved(const Tensor& source, const QuantizeOptions& options) {
    const Granularity granularity = options.recipe.granularity;
    if (granularity == Granularity::none) return "values with scales";
    if (options.deep_gemm) return "scales without DeepGEMM's rules";
    const MatrixView x = matrix_view(source);
    if (has_short_blocks(granularity) && std::max({x.rows, x.columns, tiles(x)}) > most_indices) {
        return "at most 2^30 rows and columns and 2^30 tiles of 16 x 512";
    }
    return unserved(source, std::int64_t{0});
}

}  // namespace tilewright::launch
