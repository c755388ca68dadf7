"""transform_sf_into_required_layout: checks scale factors and converts them to the layout of DeepGEMM's kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tilewright.deep_gemm._checks import refuse, shape_text
from tilewright.deep_gemm.utils.layout import get_mn_major_tma_aligned_packed_ue8m0_tensor, mn_major
from tilewright.deep_gemm.utils.math import ceil_div

_OF_ROWS = ((1, 128), (1, 32))


def _granularity(recipe: Sequence[int], is_sfa: bool | None) -> tuple[int, int]:
    if len(recipe) == 3 and is_sfa is not None:
        return recipe[0 if is_sfa else 1], recipe[2]
    if len(recipe) == 2 and is_sfa is None:
        return recipe[0], recipe[1]
    expected = "(gran_m, gran_n, gran_k) with is_sfa, or (gran_mn, gran_k) without"
    refuse("recipe", f"{tuple(recipe)} with is_sfa={is_sfa}", expected)


def transform_sf_into_required_layout(
    sf: Tensor,
    mn: int,
    k: int,
    recipe: Sequence[int],
    num_groups: int | None = None,
    is_sfa: bool | None = None,
    disable_ue8m0_cast: bool = False,
    psum_layout: Tensor | None = None,
) -> Tensor:
    """Scale factors in the layout that products read with the least work. Optional: products accept any strides.

    Float32 factors are [.., ceil(mn / gran_mn), ceil(k / gran_k)]. Int32 factors hold four UE8M0 each and are
    [.., mn, ceil(k / (4 gran_k))]. The result depends on dtype and granularity:

    - float32, 1 x 128: float32, MN-major with aligned columns.
    - float32, 128 x 128: sf itself.
    - float32, 1 x 32: int32 with four UE8M0 each, MN-major. Factors that are not powers of two become NaN.
    - float32, 1 x 32, with disable_ue8m0_cast: float32, MN-major.
    - int32, 1 x 128 or 1 x 32: int32, MN-major.

    Args:
        sf: scale factors of an operand [mn, k], with the shape above. With groups the shape is [num_groups, ..].
        mn: rows of the operand.
        k: columns of the operand.
        recipe: (gran_mn, gran_k), or (gran_m, gran_n, gran_k) with is_sfa.
        num_groups: the number of groups. None means a matrix.
        is_sfa: whether sf belongs to a. Required with a recipe of three numbers, and only then.
        disable_ue8m0_cast: whether float32 factors of 1 x 32 stay float32. Default False.
        psum_layout: without effect. DeepGEMM has it.

    Returns:
        The factors in the layout above; sf itself if it has that layout.

    Raises:
        InvalidCall: sf has another shape, dtype or granularity.
    """
    gran_mn, gran_k = _granularity(recipe, is_sfa)
    packed = sf.dtype == torch.int32
    shape = [ceil_div(mn, gran_mn), ceil_div(k, gran_k * (4 if packed else 1))]
    shape = shape if num_groups is None else [num_groups, *shape]
    if list(sf.shape) != shape:
        what = f"four packed factors per {gran_mn} x {4 * gran_k}" if packed else f"a factor per {gran_mn} x {gran_k}"
        refuse("sf", shape_text(sf), f"{shape}, {what} of [mn, k] = [{mn}, {k}]")
    if packed and (gran_mn, gran_k) in _OF_ROWS:
        return mn_major(sf)
    if sf.dtype != torch.float32 or (gran_mn, gran_k) not in (*_OF_ROWS, (128, 128)):
        got = f"{sf.dtype} for {gran_mn} x {gran_k}"
        refuse("sf", got, "torch.float32 for 1 x 128, 128 x 128 or 1 x 32, or torch.int32 for 1 x 128 or 1 x 32")
    if gran_k == 128 or disable_ue8m0_cast:
        return mn_major(sf) if gran_mn == 1 else sf
    return get_mn_major_tma_aligned_packed_ue8m0_tensor(sf, psum_layout)
