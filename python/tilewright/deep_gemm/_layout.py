"""transform_sf_into_required_layout: the scale factors that DeepGEMM's kernels ask for, checked."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tilewright.deep_gemm._checks import refuse, shape_text
from tilewright.deep_gemm.utils.layout import get_mn_major_tma_aligned_tensor
from tilewright.deep_gemm.utils.math import ceil_div


def _granularity(recipe: Sequence[int], is_sfa: bool | None) -> tuple[int, int]:
    if len(recipe) == 3 and is_sfa is not None:
        return recipe[0 if is_sfa else 1], recipe[2]
    if len(recipe) == 2 and is_sfa is None:
        return recipe[0], recipe[1]
    wanted = "is_sfa with (gran_m, gran_n, gran_k), and no is_sfa with (gran_mn, gran_k)"
    refuse("recipe", f"{tuple(recipe)} with is_sfa={is_sfa}", wanted)


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
    """sf as float32 [.., ceil(mn / gran_mn), ceil(k / gran_k)] in the layout that a kernel reads fastest.

    For a factor for each row MN-major with aligned columns, for 128 x 128 blocks as it is. All products here also take
    sf in any other strides, so that calling this is a choice.
    """
    gran_mn, gran_k = _granularity(recipe, is_sfa)
    shape = [ceil_div(mn, gran_mn), ceil_div(k, gran_k)]
    shape = shape if num_groups is None else [num_groups, *shape]
    if list(sf.shape) != shape:
        refuse("sf", shape_text(sf), f"{shape}", f"it has a factor for {gran_mn} x {gran_k} of [mn, k] = [{mn}, {k}]")
    if sf.dtype != torch.float32 or gran_k != 128 or gran_mn not in (1, 128):
        refuse("sf", f"{sf.dtype} for {gran_mn} x {gran_k}", "torch.float32 for 1 x 128 or 128 x 128 on Hopper")
    return get_mn_major_tma_aligned_tensor(sf) if gran_mn == 1 else sf
