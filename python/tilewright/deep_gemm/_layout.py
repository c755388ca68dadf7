"""transform_sf_into_required_layout: the scale factors that DeepGEMM's kernels ask for, checked and laid out."""

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
    """sf, checked, in the layout in which a product takes it with the least to do.

    - float32 [.., ceil(mn / gran_mn), ceil(k / gran_k)] for a row and 128 of k: MN-major with aligned columns; for
      128 x 128 blocks as it is.
    - float32 for a row and 32 of k: four powers of two to an int32, MN-major; other numbers become NaN. With
      disable_ue8m0_cast float32, MN-major.
    - int32 [.., mn, ceil(k / (4 gran_k))], four UE8M0 each: MN-major.

    Tensors in that layout are returned as they are. All products here also take sf in any other strides, and the float32
    factors, so that calling this is a choice.
    """
    gran_mn, gran_k = _granularity(recipe, is_sfa)
    packed = sf.dtype == torch.int32
    shape = [ceil_div(mn, gran_mn), ceil_div(k, gran_k * (4 if packed else 1))]
    shape = shape if num_groups is None else [num_groups, *shape]
    if list(sf.shape) != shape:
        what = "four packed factors" if packed else "a factor"
        refuse("sf", shape_text(sf), f"{shape}", f"it has {what} for {gran_mn} x {gran_k} of [mn, k] = [{mn}, {k}]")
    if packed and (gran_mn, gran_k) in _OF_ROWS:
        return mn_major(sf)
    if sf.dtype != torch.float32 or (gran_mn, gran_k) not in (*_OF_ROWS, (128, 128)):
        given = f"{sf.dtype} for {gran_mn} x {gran_k}"
        refuse("sf", given, "torch.float32 for 1 x 128, 128 x 128 or 1 x 32, or torch.int32 for 1 x 128 or 1 x 32")
    if gran_k == 128 or disable_ue8m0_cast:
        return mn_major(sf) if gran_mn == 1 else sf
    return get_mn_major_tma_aligned_packed_ue8m0_tensor(sf, psum_layout)
