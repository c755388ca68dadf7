"""`tilewright.moe` and `route`: against float64, against their steps by public calls, and wrong calls."""

import inspect
import math

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from moe_oracle import error, exact, steps

BF16 = ml_dtypes.bfloat16
T, HIDDEN, INNER, EXPERTS, K = 24, 128, 128, 5, 3
RANDOM = np.random.default_rng(0)


def normal(*shape, scale=1.0):
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


X = normal(T, HIDDEN)
UP, DOWN = normal(EXPERTS, 2 * INNER, HIDDEN, scale=HIDDEN**-0.5), normal(EXPERTS, HIDDEN, INNER, scale=INNER**-0.5)
IDS = np.argsort(RANDOM.random((T, EXPERTS)), axis=1)[:, :K].astype(np.int32)
WEIGHTS = RANDOM.random((T, K)).astype(np.float32)
REAL = (UP.astype(BF16), DOWN.astype(BF16))
# The root mean square of two roundings of each of two products.
WITHIN = {"128x128": 0.08, "row": 0.08, "tensor": 0.08, "1x128": 0.08, "mxfp8": 0.1, "mxfp4": 0.25, "nvfp4": 0.2}


def quantized(recipe):
    return tw.quantize(UP, recipe), tw.quantize(DOWN, recipe)


@pytest.mark.parametrize("recipe", WITHIN)
def test_every_recipe_is_near_float64(recipe):
    up, down = quantized(recipe)
    given = tw.moe(X, up, down, experts=IDS, weights=WEIGHTS)
    assert error(given, exact(X, UP, DOWN, IDS, WEIGHTS)) < WITHIN[recipe]
    rounding = 0.06 if recipe not in ("mxfp4", "nvfp4") else 0.01  # only that of x and h
    assert error(given, exact(X, up.dequantize(), down.dequantize(), IDS, WEIGHTS)) < rounding


@pytest.mark.parametrize("activations, recipe", [("1x128", "128x128"), ("row", "row"), ("1x128", "tensor")])
@pytest.mark.parametrize("at", ["combine", "activation", "input"])
def test_the_bits_are_those_of_the_steps(activations, recipe, at):
    up, down = quantized(recipe)
    call = {"experts": IDS, "weights": WEIGHTS, "weights_at": at, "activations": activations}
    given = tw.moe(X, up, down, **call, arithmetic="bit_exact")
    assert np.array_equal(given, steps(X, up, down, IDS, WEIGHTS, activations=activations, at=at))
    bf16 = tw.moe(X.astype(BF16), up, down, **call, arithmetic="bit_exact", out_dtype="f32", alpha=1.702, beta=1.0, limit=0.5)
    expected = steps(X.astype(BF16), up, down, IDS, WEIGHTS, activations=activations, at=at, alpha=1.702, beta=1.0, limit=0.5)
    assert np.array_equal(bf16, expected)


@pytest.mark.parametrize("kind", ["swiglu", "situ", "geglu", "relu_squared"])
@pytest.mark.parametrize("interleaved", [False, True])
def test_units_biases_and_addends(kind, interleaved):
    up = REAL[0][:, :INNER] if kind == "relu_squared" else REAL[0]
    biases = {"up_bias": normal(*up.shape[:2], scale=0.3), "down_bias": normal(EXPERTS, HIDDEN, scale=0.3).astype(BF16)}
    numbers = {"swiglu": {"alpha": 1.702, "beta": 1.0, "limit": 0.7}, "situ": {"gate_bound": 0.5, "up_bound": 0.9}}.get(kind, {})
    call = {"interleaved": interleaved, **biases, "addend": X, **numbers}
    given = tw.moe(X, up, REAL[1], experts=IDS, weights=WEIGHTS, activation=kind, activations="bf16", **call)
    assert error(given, exact(X, up, REAL[1], IDS, WEIGHTS, kind=kind, **call)) < 0.006


def test_an_unbounded_up_of_situ():
    given = tw.moe(X, *REAL, experts=IDS, activation="situ", up_bound=np.inf)
    assert error(given, exact(X, *REAL, IDS, kind="situ", up_bound=np.inf)) < 0.006


def odd_ids(name):
    ids = IDS.copy()
    if name == "elsewhere":
        ids[RANDOM.random(ids.shape) < 0.5] = -1
        ids[0], ids[1, 0], ids[2, 0] = -1, EXPERTS, np.iinfo(np.int32).max
    elif name == "twice":
        ids[:, 1] = ids[:, 0]
    elif name == "all to one":
        ids[:] = 3
    elif name == "int64":
        ids = ids.astype(np.int64)
        ids[0, 0] = 2**40 + 1
    elif name == "one choice":
        ids = ids[:, :1]
    elif name == "sixteen choices":
        ids = RANDOM.integers(-2, EXPERTS + 2, (T, 16)).astype(np.int32)
    elif name == "strided":
        ids = np.repeat(ids, 2, axis=1)[:, ::2].T.copy().T
    return ids


@pytest.mark.parametrize("name", ["elsewhere", "twice", "all to one", "int64", "one choice", "sixteen choices", "strided"])
def test_any_ids(name):
    ids = odd_ids(name)
    weights = RANDOM.random(ids.shape).astype(BF16)
    given = tw.moe(X, *REAL, experts=ids, weights=weights, activations="bf16")
    assert error(given, exact(X, *REAL, ids, weights)) < 0.006
    if name == "elsewhere":
        assert not given[0].any()


def test_no_token():
    given = tw.moe(X[:0], *REAL, experts=IDS[:0], weights=WEIGHTS[:0], activations="bf16")
    assert given.shape == (0, HIDDEN) and given.dtype == np.float32


def test_a_map_of_experts_and_shared_ones():
    places = np.full(40, -1, np.int32)
    places[[30, 7, 12]] = 0, 1, 2
    ids = RANDOM.choice([30, 7, 12, 3, -5, 50], (T, K)).astype(np.int64)
    given = tw.moe(X, *REAL, experts=ids, weights=WEIGHTS, expert_map=places, shared=2, activations="bf16")
    assert error(given, exact(X, *REAL, ids, WEIGHTS, expert_map=places, shared=2)) < 0.006


def sorted_rows():
    """The same layer as rows that are sorted by expert, and the row of each choice."""
    routed = tw.route(IDS, EXPERTS, WEIGHTS)
    return X[routed.sources // K], routed


def test_rows_with_ends():
    up, down = quantized("128x128")
    rows, routed = sorted_rows()
    given = tw.moe(rows, up, down, offsets=routed.ends, row_weights=routed.weights)
    whole = tw.moe(X, up, down, experts=IDS, weights=WEIGHTS)
    assert given.shape == rows.shape and error(given[routed.rows].sum(1), whole) < 1e-6
    some = tw.moe(rows, up, down, offsets=[5, 5, 9, 20, 30])
    assert not some[30:].any() and some[:30].any(axis=1).all()
    assert np.array_equal(tw.moe(tw.quantize(rows, "1x128"), up, down, offsets=routed.ends, out_dtype="f32", row_weights=routed.weights), given)


def test_rows_with_aligned_ends_and_counts():
    up, down = quantized("128x128")
    rows, routed = sorted_rows()
    sizes = np.diff(routed.ends, prepend=0)
    expected = np.split(tw.moe(rows, up, down, offsets=routed.ends), routed.ends[:-1])
    begins = np.arange(EXPERTS) * 128
    aligned, masked = np.zeros((128 * EXPERTS, HIDDEN), np.float32), np.full((EXPERTS, 40, HIDDEN), np.nan, np.float32)
    for group, (begin, size, part) in enumerate(zip(begins, sizes, np.split(rows, routed.ends[:-1]), strict=True)):
        aligned[begin : begin + size] = masked[group, :size] = part
    by_offsets = tw.moe(aligned, up, down, aligned_offsets=begins + sizes)
    by_counts = tw.moe(masked, up, down, counts=sizes)
    for group, (begin, size) in enumerate(zip(begins, sizes, strict=True)):
        assert error(by_offsets[begin : begin + size], expected[group].astype(float)) < 1e-6
        assert error(by_counts[group, :size], expected[group].astype(float)) < 1e-6 and not by_counts[group, size:].any()


def test_the_result_has_the_dtype_of_x_if_not_told_otherwise():
    up, down = quantized("128x128")
    call = {"experts": IDS, "weights": WEIGHTS}
    assert tw.moe(X, up, down, **call).dtype == np.float32
    assert tw.moe(X.astype(BF16), up, down, **call).dtype == BF16
    assert tw.moe(X.astype(np.float16), up, down, **call).dtype == np.float16
    assert tw.moe(tw.quantize(X, "1x128"), up, down, **call).dtype == BF16
    assert tw.moe(X, up, down, **call, out_dtype="bf16").dtype == BF16
    out = np.full((T, HIDDEN), np.nan, np.float32)
    assert tw.moe(X, up, down, **call, out=out) is out and np.array_equal(out, tw.moe(X, up, down, **call))
    residual = X.copy()
    summed = tw.moe(X, up, down, **call, addend=X)
    assert np.array_equal(tw.moe(X, up, down, **call, addend=residual, out=residual), summed)


def test_codes_of_x():
    """Each token is quantized once, whoever does it."""
    for recipe, activations in (("128x128", "1x128"), ("row", "row"), ("mxfp8", "mxfp8"), ("nvfp4", "nvfp4"), ("tensor", "tensor")):
        up, down = quantized(recipe)
        call = {"experts": IDS, "weights": WEIGHTS, "out_dtype": "f32"}
        codes = tw.quantize(X, activations)
        assert np.array_equal(tw.moe(codes, up, down, **call), tw.moe(X, up, down, **call, activations=activations)), recipe


def test_weights_that_are_packed():
    mxfp4 = quantized("mxfp4")
    for packed_for, activations in (("bf16", "bf16"), ("fp8", "1x128")):
        packed = [tw.pack_weights(w, packed_for) for w in mxfp4]
        call = {"experts": IDS, "weights": WEIGHTS, "arithmetic": "bit_exact"}
        given = tw.moe(X.astype(BF16), *packed, **call)
        assert np.array_equal(given, tw.moe(X.astype(BF16), *mxfp4, **call, activations=activations))


def test_chunks_have_the_bits_of_the_whole():
    up, down = quantized("128x128")
    call = {"experts": IDS, "weights": WEIGHTS, "arithmetic": "bit_exact", "invariant": True}
    whole = tw.moe(X, up, down, **call)
    assert all(np.array_equal(tw.moe(X, up, down, **call, chunk=chunk), whole) for chunk in (1, 7, 23, 24))


def test_strided_tokens_and_weights():
    wide = np.full((T, 3 * HIDDEN), np.nan, np.float32)
    wide[:, HIDDEN : 2 * HIDDEN] = X
    given = tw.moe(wide[:, HIDDEN : 2 * HIDDEN], *REAL, experts=IDS, weights=np.asfortranarray(WEIGHTS), activations="bf16")
    assert np.array_equal(given, tw.moe(X, *REAL, experts=IDS, weights=WEIGHTS, activations="bf16"))


def test_route():
    found = tw.route(odd_ids("elsewhere"), EXPERTS, WEIGHTS, shared=1)
    assert found.rows.shape == (T, K + 1) and found.rows.dtype == found.sources.dtype == found.ends.dtype == np.int32
    assert found.weights.shape == (T * (K + 1),) and (found.rows[:, K] >= 0).all()
    token, choice = np.nonzero(found.rows >= 0)
    assert np.array_equal(found.sources[found.rows[token, choice]], token * (K + 1) + choice)
    with_shared = np.concatenate([WEIGHTS, np.ones((T, 1), np.float32)], axis=1)
    assert np.array_equal(found.weights[found.rows[token, choice]], with_shared[token, choice])
    assert found.ends[-1] == len(token) and not found.sources[found.ends[-1] :].any()
    for begin, end in zip([0, *found.ends], found.ends):
        assert (np.diff(found.sources[begin:end]) > 0).all()
    assert tw.route(IDS, EXPERTS).weights is None
    empty = tw.route(IDS[:0], EXPERTS, WEIGHTS[:0])
    assert empty.rows.shape == (0, K) and empty.sources.shape == empty.weights.shape == (0,)
    assert empty.ends.tolist() == [0] * EXPERTS
    several = np.int64([[1, 9], [9, 0]])
    assert tw.route(several, 2, expert_map=np.int32([1] + [-1] * 8 + [0])).rows.tolist() == [[-1, 0], [1, 2]]


def refusal(function, *given, **keywords):
    with pytest.raises(tw.InvalidCall) as caught:
        function(*given, **keywords)
    return [finding.operand for finding in caught.value.findings], str(caught.value)


FP8 = quantized("128x128")
WRONG = {
    "experts": ({"experts": IDS[:5]}, "because x has 24 tokens"),
    "weights": ({"weights": WEIGHTS[:, :2]}, "as experts"),
    "expert_map": ({"expert_map": np.zeros((2, 2), np.int32)}, "[global experts]"),
    "shared": ({"shared": 6}, "0 to 5, the local experts"),
    "activation": ({"activation": "gelu"}, "one of swiglu, situ, geglu, relu_squared"),
    "weights_at": ({"weights_at": "up"}, "one of combine, activation, input"),
    "activations": ({"activations": "128x128"}, "scales of single rows: 1x128, row"),
    "gate_bound": ({"activation": "situ", "gate_bound": -1}, "a positive number"),
    "up_bound": ({"activation": "situ", "up_bound": 0}, "a positive number"),
    "limit": ({"limit": "7"}, "a number"),
    "interleaved": ({"interleaved": 1}, "True or False"),
    "chunk": ({"chunk": 0}, "at least 1"),
    "up_bias": ({"up_bias": normal(EXPERTS, INNER)}, "[5, 256], because up is"),
    "down_bias": ({"down_bias": normal(HIDDEN, 2)}, "[5, 128]"),
    "addend": ({"addend": X[:3]}, "as out"),
    "out": ({"out": np.zeros((T, 3), np.float32)}, "as x"),
    "groups": ({"offsets": [1, 2, 3, 4, 24]}, "offsets; expected none together with experts"),
    "row_weights": ({"row_weights": np.ones(T, np.float32)}, "Pass weights"),
}


@pytest.mark.parametrize("operand", WRONG)
def test_misuse_names_the_keyword(operand):
    keywords, text = WRONG[operand]
    call = {"experts": IDS, "weights": WEIGHTS, **keywords}
    operands, message = refusal(tw.moe, X, *FP8, **call)
    assert operand in operands and text in message, message
    assert refusal(tw.explain_moe, X, *FP8, **call) == (operands, message)
    assert [finding.message() for finding in tw.validate_moe(X, *FP8, **call)] == message.split("\n")


def test_misuse_of_operands():
    call = {"experts": IDS}
    assert refusal(tw.moe, X[:, :64], *FP8, **call) == (["x"], "x: got [24, 64]; expected [24, 128], because up is [5, 256, 128].")
    assert refusal(tw.moe, X[0], *FP8, **call)[0] == ["x"]
    assert refusal(tw.moe, X, FP8[0], FP8[0], **call)[0] == ["down"]
    assert refusal(tw.moe, X, UP[0], DOWN, **call)[0] == ["up"]
    assert refusal(tw.moe, X, UP[:, 1:], DOWN, **call)[0] == ["up"]
    assert refusal(tw.moe, tw.quantize(X, "row"), *FP8, **call)[0]
    assert refusal(tw.moe, tw.quantize(X, "row"), *FP8, **call, activations="1x128")[0] == ["x"]
    pair = "activations: got row:128x128; expected row:e4m3"
    assert refusal(tw.moe, X, FP8[0], tw.quantize(DOWN, "row"), **call, activations="row")[1].startswith(pair)
    unscaled = tw.Quantized(FP8[0].values, "128x128")
    missing = "up.scales: got nothing; expected [5, 2, 1] for 128x128 scales of up [5, 256, 128]."
    assert refusal(tw.moe, X, unscaled, FP8[1], **call)[1] == missing
    for limit in (-1, math.nan):
        assert "limit: got " in refusal(tw.moe, X, *FP8, **call, limit=limit)[1]
    assert refusal(tw.moe, X, *FP8, experts=IDS[::-1])[1].endswith("none negative. Copy a reversed view.")
    empty = "up: got [0, 256, 128]; expected [experts, 2 inner, hidden], none of them 0."
    assert refusal(tw.moe, X, UP[:0], DOWN[:0], **call)[1].startswith(empty)
    several = refusal(tw.moe, X, *FP8, experts=IDS[:5], activations="128x128", up_bias=DOWN[0])[0]
    assert several == ["activations", "up_bias", "experts"]  # all mistakes at once
    assert refusal(tw.moe, tw.quantize(X, "1x128"), *FP8, **call, weights_at="input")[0] == ["x"]
    both = refusal(tw.moe, X, *FP8)
    assert both[0] == ["experts"] and "offsets, aligned_offsets or counts" in both[1]
    assert refusal(tw.moe, X, *FP8, offsets=[1], counts=[1])[0] == ["groups"]
    assert refusal(tw.moe, X, *FP8, offsets=[1, 2, 3])[1].endswith("The number of groups is 5 in up.values.")
    assert refusal(tw.moe, X, *FP8, offsets=[1, 2, 3, 4, 5], weights=WEIGHTS)[0] == ["weights"]
    assert refusal(tw.moe, X, *FP8, experts=IDS.astype(np.float32))[0] == ["experts"]
    for keywords, words in (
        ({"topk_ids": IDS}, "moe() has no keyword 'topk_ids'. Did you mean experts=?"),
        ({"recipe": "row"}, "Did you mean activations=?"),
        ({"topk_weights": 1}, "Did you mean weights=?"),
    ):
        with pytest.raises(TypeError) as caught:
            tw.moe(X, *FP8, **keywords)
        assert words in str(caught.value)
    with pytest.raises(TypeError, match=r"moe\(\) takes only x, up and down by position\. Pass the rest by keyword, e\.g\. experts="):
        tw.moe(X, *FP8, IDS)


def forms():
    """A right call of each form: x and its keywords."""
    rows, routed = sorted_rows()
    aligned = {"aligned_offsets": np.arange(EXPERTS) * 128 + 5}
    return [
        (X, {"experts": IDS, "weights": WEIGHTS}),
        (tw.quantize(X, "1x128"), {"experts": IDS, "shared": 1, "weights_at": "activation", "chunk": 7}),
        (rows, {"offsets": routed.ends, "row_weights": routed.weights}),
        (np.zeros((128 * EXPERTS, HIDDEN), BF16), aligned),
        (np.zeros((EXPERTS, 40, HIDDEN), np.float16), {"counts": [1, 2, 3, 4, 40], "expected_m": 2}),
    ]


@pytest.mark.parametrize("question", [tw.validate_moe, tw.explain_moe])
def test_questions_take_the_arguments_of_the_call(question):
    asked, called = (inspect.signature(function) for function in (question, tw.moe))
    assert asked.parameters == called.parameters
    for x, call in forms():
        tw.moe(x, *FP8, **call)
        found = question(x, *FP8, **call)
        assert found == [] if question is tw.validate_moe else found.unavailable == [] and found.launches == len(found.steps)
    with pytest.raises(TypeError, match=rf"{question.__name__}\(\) has no keyword 'topk_ids'\. Did you mean experts="):
        question(X, *FP8, topk_ids=IDS)


def test_validate_reads_ends():
    (finding,) = tw.validate_moe(X, *FP8, offsets=[5, 3, 9, 20, 24])
    assert finding.operand == "offsets" and "Did you pass sizes?" in finding.message()
    assert [finding.operand for finding in tw.validate_moe(X, *FP8, offsets=[1], counts=[1])] == ["groups"]


def test_explain_lists_the_kernels_of_each_form():
    steps = [[step.name for step in tw.explain_moe(x, *FP8, **call).steps] for x, call in forms()]
    layer, last = ["permute", "up", "activate", "down"], ["combine"]
    assert steps == [layer + last] * 3 + [layer, layer + last]  # the second product writes bfloat16 of rows
    many = np.zeros((1024, K), np.int32)
    found = tw.explain_moe(np.zeros((1024, HIDDEN), np.float32), *FP8, experts=many)
    assert found.steps[0].name == "route" and found.steps[0].bytes > 0 and found.link_bytes == found.exposed_seconds == 0
    assert found.seconds == pytest.approx(sum(step.seconds for step in found.steps)) and found.seconds > 1e-6
    tensor = tw.explain_moe(X, *quantized("tensor"), experts=IDS)
    assert [step.launches for step in tensor.steps if step.name == "quantize"] == [4, 4] and tensor.launches == len(tensor.steps) + 6


def test_explain_plans_for_the_device_that_is_asked_for():
    found = [tw.explain_moe(X, *FP8, experts=IDS, planned_device=device) for device in ("h200", "h20")]
    assert [each.device for each in found] == ["h200", "h20"] and found[0].seconds != found[1].seconds and found[1].assumed
    with tw.options(planned_device="h100"):
        assert tw.explain_moe(X, *FP8, experts=IDS).device == "h100"


def test_an_explanation_is_text_and_a_table():
    found = tw.explain_moe(X, *FP8, experts=IDS)
    lines = str(found).split("\n")
    assert lines[0].startswith("5 launches, ") and lines[1].startswith("device: ") and lines[2].startswith("permute: 72 rows of 1x128, ")
    assert len(lines) == 2 + len(found.steps) and "exposed" not in str(found) and lines[0] in repr(found)
    table = found._repr_html_()
    assert table.startswith("<table><caption>") and table.count("<tr>") == table.count("</tr>") == 1 + len(found.steps)
    refused = tw.explain_moe(X, UP, DOWN, experts=IDS)
    assert refused.steps == [] and {finding.operand for finding in refused.unavailable} >= {"x", "up"}
    assert str(refused).startswith("no Hopper kernel: ") and "<tr>" not in refused._repr_html_()


def test_misuse_of_route():
    assert refusal(tw.route, IDS, 0)[0] == ["num_experts"]
    assert refusal(tw.route, IDS, 5000)[0] == ["num_experts"]
    assert refusal(tw.route, IDS[0], 4)[0] == ["experts"]
    assert refusal(tw.route, IDS, 4, WEIGHTS[:2])[0] == ["weights"]
    assert refusal(tw.route, IDS, 4, shared=5)[0] == ["shared"]
    assert refusal(tw.route, IDS, 4, expert_map=np.zeros(3, np.int64))[0] == ["expert_map"]


def test_tensors_of_torch():
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
    x, ids, weights = (torch.tensor(array.tolist(), dtype=dtype) for array, dtype in ((X, torch.bfloat16), (IDS, torch.int64), (WEIGHTS, None)))
    up, down = (tw.quantize(torch.tensor(w.tolist()), "128x128") for w in (UP, DOWN))
    given = tw.moe(x, up, down, experts=ids, weights=weights)
    assert given.dtype == torch.bfloat16 and given.shape == x.shape
    same = tw.moe(X.astype(BF16), *FP8, experts=IDS, weights=WEIGHTS).astype(np.float32)
    assert given.float().tolist() == same.tolist()
    assert tw.validate_moe(x, up, down, experts=ids, weights=weights) == []
    explained = tw.explain_moe(x, up, down, experts=ids, weights=weights)
    assert str(explained) == str(tw.explain_moe(X.astype(BF16), *FP8, experts=IDS.astype(np.int64), weights=WEIGHTS))
    routed = tw.route(ids, EXPERTS)
    assert isinstance(routed.rows, torch.Tensor) and routed.rows.tolist() == tw.route(IDS, EXPERTS).rows.tolist()
