"""Layers of experts over two ranks with gloo: equal to one process with all tokens and experts, and no hang when a rank is wrong.

`expert_ranks` runs the calls, once for all tests.
"""

import re

import pytest

torch = pytest.importorskip("torch", reason="needs torch 2.6 or newer: pip install torch")
from tilewright.torch import ExpertGroup, _operators  # noqa: E402

if not _operators.AVAILABLE or not torch.distributed.is_available():
    pytest.skip(f"needs torch 2.6 or newer, with torch.distributed; this is {torch.__version__}", allow_module_level=True)
fsdp = pytest.importorskip("torch.distributed.fsdp")
if not hasattr(fsdp, "fully_shard"):
    pytest.skip(f"needs torch 2.6 or newer; this is {torch.__version__}", allow_module_level=True)

import expert_ranks  # noqa: E402
from expert_ranks import CASE, CASES, EXACT, EXPERTS, HIDDEN, INNER, PLACES, RANKS, WIDE, WRONG_CALLS  # noqa: E402
from expert_ranks import gradients, ids_of, of_rank, tokens_of, wanting, weights_of  # noqa: E402
from tilewright.torch import moe  # noqa: E402
from torch_layers import one_thread  # noqa: E402, F401

UNIT_ROUNDOFF = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The results of the four processes."""
    folder = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.spawn(expert_ranks.run, (str(folder / "rendezvous"), str(folder / "results")), 2 * RANKS)
    return [torch.load(folder / f"results{number}", weights_only=False) for number in range(2 * RANKS)]


def places_of(case, rank):
    """The choices of a rank's tokens as places of a layer in one process: the place of the copy that serves the token."""
    ids = ids_of(case, rank)
    if not case.placement:
        return torch.where(ids < EXPERTS, ids, -1)  # no number names a shared expert
    made = torch.full_like(ids, -1)
    for token, row in enumerate(ids.tolist()):
        for choice, expert in enumerate(row):
            if 0 <= expert < len(PLACES):
                copies = [place for place in PLACES[expert] if place >= 0]
                made[token, choice] = copies[token % len(copies)]
    return made


def one_process(case, owner=None, ranks=range(RANKS), dtype=None):
    """The layer in one process, with the tokens of `ranks`: result, gradients of x, weights, addend and of the experts.

    owner: only the experts of this rank, without the addend, as it sums them before they are sent.
    """
    given = [tokens_of(case, rank) for rank in ranks]
    ids = torch.cat([places_of(case, rank) for rank in ranks])
    x, weights, addend, d_out = (None if part[0] is None else torch.cat(part) for part in zip(*given))
    shared = case.shared
    if owner is not None:
        routed = EXPERTS // RANKS
        ids = torch.where((ids >= owner * routed) & (ids < (owner + 1) * routed), ids, -1)
        if shared:  # of the tokens of this rank only, as further choices
            begin, end = (sum(case.tokens[:rank]) for rank in (owner, owner + 1))
            own = (torch.arange(len(ids)) >= begin) & (torch.arange(len(ids)) < end)
            ids = torch.cat([ids, torch.where(own[:, None], EXPERTS, -1)], 1)
            weights = torch.cat([weights, torch.ones(len(ids), 1)], 1)
            shared = 0
        addend = None
    tensors = wanting((x if dtype is None else x.to(dtype), weights, addend, *weights_of(case, EXPERTS + case.shared)))
    x, weights, addend, up, down, up_bias, down_bias = tensors
    out = moe(x, ids, weights, up, down, up_bias=up_bias, down_bias=down_bias, addend=addend, shared=shared, **case.how)
    out.backward(d_out.to(out.dtype))
    return out.detach(), gradients(tensors)


def rounding(case, sums, near, off):
    """How far two sums may be apart: each rank's sum is rounded once, and so is the sum of these."""
    sent = UNIT_ROUNDOFF[case.sums or case.dtype]
    added = 8 * UNIT_ROUNDOFF[torch.float32]  # a few roundings of float32 sums
    sizes = sum(one.double().abs() for one in sums)
    return (sent + added) * sizes + UNIT_ROUNDOFF[case.dtype] * (1 + added) * (near.double().abs() + off.double().abs())


def defined(case, part, added):
    """Results (0) or gradients of x (1) by the definition: the sum of each rank, rounded, added in the order of the ranks."""
    total = torch.cat(added) if added else 0.0
    for owner in range(RANKS):
        out, (d_x, *_) = one_process(case, owner, dtype=case.sums or case.dtype)
        total = total + (d_x if part else out).float()
    return total.to(case.dtype)


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_one_process(found, name):
    case, ranks = CASES[name], [found[rank][name] for rank in range(RANKS)]
    out, (d_x, d_weights, d_addend, *d_experts) = one_process(case)
    ours = torch.cat([rank["out"].reshape(-1, HIDDEN) for rank in ranks])
    of_x, of_weights, of_addend = (
        None if part[0] is None else torch.cat(part) for part in list(zip(*(rank["gradients"] for rank in ranks)))[:3]
    )
    sums = [one_process(case, owner, dtype=torch.float32) for owner in range(RANKS)]
    added = [tokens[2].float() for tokens in map(lambda rank: tokens_of(case, rank), range(RANKS)) if tokens[2] is not None]
    parts = [part for part, _ in sums] + ([torch.cat(added)] if added else [])
    assert bool(((ours.double() - out.double()).abs() <= rounding(case, parts, out, ours)).all())
    of_parts = [of_sums[0] for _, of_sums in sums]
    assert bool(((of_x.double() - d_x.double()).abs() <= rounding(case, of_parts, d_x, of_x)).all())
    assert (of_weights is None) == (d_weights is None) and (of_addend is None) == (d_addend is None)
    assert of_weights is None or torch.equal(of_weights, d_weights)
    assert of_addend is None or torch.equal(of_addend, d_addend)
    if name in EXACT:
        assert torch.equal(ours, out) and torch.equal(of_x, d_x)
    for made, part, begin in ((ours, 0, added), (of_x, 1, [])):
        assert torch.equal(made, defined(case, part, begin))
    for rank in range(RANKS):
        assert torch.equal(ranks[rank]["out"], ranks[rank]["quiet"])
        assert ranks[rank]["calls"] == 2
        for mine, whole in zip(ranks[rank]["gradients"][3:], d_experts, strict=True):
            if whole is None:
                assert mine is None
                continue
            if case.shared:  # a rank's copy of a shared expert has its own tokens only
                alone = one_process(case, ranks=[rank])[1][3 + [id(w) for w in d_experts].index(id(whole))]
                assert torch.equal(mine[-case.shared :], alone[-case.shared :])
                mine, whole = mine[: -case.shared], whole[: -case.shared]
                assert torch.equal(mine, of_rank(CASE, whole, rank))
            else:
                assert torch.equal(mine, of_rank(case, whole, rank))


@pytest.mark.parametrize("name", expert_ranks.CASES)
def test_peer_memory_has_the_bits_of_collectives(found, name):
    for rank in range(RANKS):
        made = found[rank][name]
        for out, of_each in made["peer"]:
            assert torch.equal(out, made["out"])
            for mine, wanted in zip(of_each, made["gradients"], strict=True):
                assert (mine is None) == (wanted is None)
                assert mine is None or torch.equal(mine, wanted)


@pytest.mark.parametrize("name", expert_ranks.CASES)
def test_rows_have_the_bits_of_one_process(found, name):
    """The owner sums its choices' rows in the order of one process. A second call is the same."""
    case, results = CASES[name], one_process(CASES[name])
    expected = results[0].split(list(case.tokens))
    for rank in range(RANKS):
        rows = found[rank][name]["rows"]
        assert torch.equal(rows[0].view(expected[rank].shape), expected[rank]) and torch.equal(rows[0], rows[1])


def test_explain_names_the_engine_and_what_travels(found):
    said = found[2]["explained"]
    for name, combine, bytes_of_result in (("default", "rows", 2), ("sums", "sums", 2), ("float32 sums", "sums", 4), ("rows", "rows", 2)):
        given, middle = said[name], (combine, 1)
        assert (given["ranks"], given["exchange"], given["combine"], given["unavailable"]) == (RANKS, "dense", combine, [])
        launches = [step[:2] for step in given["steps"]]
        assert launches == [("announce", 1), ("all-gather", 2), ("permute", 1), ("up", 1), ("activate", 1), ("down", 1), middle,
                            ("all-to-all", 1), ("combine", 1)]  # fmt: skip
        link = {step[0]: step[2] for step in given["steps"] if step[2]}
        # 12 tokens of the other rank: 2 choices, 64 codes and a scale, announced at multiples of 128 bytes.
        assert link["all-gather"] == 128 + 128 + 128 + 12 * HIDDEN + 128
        assert link["all-to-all"] == 12 * HIDDEN * bytes_of_result * (2 if combine == "rows" else 1) and len(link) == 2
        assert {step[0] for step in given["steps"] if step[3] > 0} == set(link)
        assert "of it exposed" in given["text"] and " from other ranks" in given["text"]
    assert said["default"]["engine"] == "collectives of torch.distributed, gloo: the tokens are on CPUs"
    assert said["rows"]["engine"] == "collectives of torch.distributed, gloo: the exchange of the group is dense"
    assert said["called"] == said["rows"]
    assert said["wrong"].startswith("InvalidCall: x: got 13 tokens; expected at most 12")
    assert found[3]["explained"]["called"] == said["called"]


def test_the_ranks_sums_are_rounded(found):
    """The bound of the test above is not met by equality: else it would judge nothing."""
    ours = torch.cat([found[rank]["tokens of both"]["out"] for rank in range(RANKS)])
    assert not torch.equal(ours, one_process(CASES["tokens of both"])[0])


@pytest.mark.parametrize("name", WRONG_CALLS)
@pytest.mark.parametrize("quiet", [True, False])
def test_a_wrong_call_ends_on_both_ranks(found, name, quiet):
    """Each raises in that call, and the next one is right."""
    right, calls, after = found[2]["wrong calls"][name, quiet]
    wrong, wrong_calls, after_wrong = found[3]["wrong calls"][name, quiet]
    operand = wrong.removeprefix("ValueError: ").partition(":")[0]
    assert re.match(r"ValueError: \w+: got .*; expected .*\.", wrong), wrong
    told = operand if operand in ("x", "experts", "weights", "up", "recipe", "shared") else "another operand"
    assert right.startswith(f"ValueError: group: got a wrong {told} on rank 1 in call {calls} of expert group"), right
    assert calls == wrong_calls
    assert torch.equal(torch.cat([after, after_wrong]), right_results())


def right_results():
    """Both ranks' results of a right call, each of its ranks' sums rounded to bfloat16."""
    sums = [one_process(CASE, owner)[0].float() for owner in range(RANKS)]
    return (sums[0] + sums[1]).bfloat16()


def test_messages_of_wrong_calls(found):
    said = {name: found[3]["wrong calls"][name, True][0].removeprefix("ValueError: ") for name in WRONG_CALLS}
    room = r"x: got 13 tokens; expected at most 12, the max_tokens of expert group \d+ of .*\. Split the call"
    assert re.match(room, said["too many tokens"])
    assert said["dtype"] == "x: got torch.float32; expected torch.bfloat16, the dtype of the group."
    assert said["hidden of up and x"] == "up: got 32 columns; expected 64, hidden of the group."
    assert said["choices"] == "experts: got [7, 3]; expected [..., 2], the choices of the group."
    assert said["experts of up"].startswith("up: got 4 experts; expected 2, the experts of a rank.")
    assert said["shared"].startswith("shared: got 1; expected 0, as in the group.")
    assert said["expert_map"].startswith("expert_map: got a tensor; expected None with a group.")
    assert said["recipe"] == "recipe: got activations by 'row'; expected '1x128', the recipe of the group."


def test_a_rank_that_looks_later(found):
    """As on a GPU: the wrong rank raises, the other has NaN, both raise at the next call or backward, and then go on."""
    right, wrong = (found[2 + rank]["late calls"] for rank in range(RANKS))
    for name in ("dtype", "too many tokens"):
        assert right[name][0] is None and wrong[name][0].startswith("ValueError: x: got")
        assert "got a wrong x on rank 1 in call" in right[name][1] and right[name][1] == wrong[name][1]
        assert torch.equal(torch.cat([right[name][2], wrong[name][2]]), right_results())
    assert len(right["made"]) == 2 and all(bool(made.isnan().all()) for made in right["made"]) and not wrong["made"]
    assert right["backward"][0] is None and wrong["backward"][0].startswith("ValueError: x: got")
    assert "got a wrong x on rank 1 in call" in right["backward"][1] and right["backward"][1] == wrong["backward"][1]
    assert torch.equal(torch.cat([right["after"], wrong["after"]]), right_results())


def test_the_host_reads_nothing_of_a_captured_step(found):
    """An eager step on CPUs reads the headers. A graph has no host that could, and its results are the same."""
    for rank in range(RANKS):
        said = found[2 + rank]["captured"]
        assert "tolist" in said["eager"] and not said["captured"] and said["same"], said


def test_ranks_that_do_different_things(found):
    for rank in range(RANKS):
        said = found[2 + rank]["modes"]
        modes = r"ValueError: group: got call \d+ of .* without gradients on rank 1, with gradients on rank 0; expected one"
        assert re.match(modes, said["modes"])
        calls = r"ValueError: group: got call \d+ on rank 1 with call \d+ on rank 0 of .*; expected as many calls"
        assert re.match(calls, said["calls"])


def test_a_rank_that_leaves_a_phase_out(found):
    """The time-out of the process group ends it."""
    said = found[2]["time-outs"]
    phases = {"backward": (1, "gradients of results"), "call": (2, "tokens")}
    for name, (call, phase) in phases.items():
        text = rf"RuntimeError: group: got no answer of all ranks in call {call} of expert group \d+ of .*, phase '{phase}'; "
        assert re.match(text, said[name]), said[name]
        assert said[name, "seconds"] >= 1


def test_a_rank_that_leaves_a_call_out_of_peer_memory(found):
    """Rank 0 has waited in its second call. Each later one says so."""
    texts = found[2]["time-outs"]["peer"]
    assert len(texts) == 3
    for text in texts:
        assert re.match(r"RuntimeError: group: got no answer of all ranks in call \d+ of expert group \d+ of ", text), text
        assert "rank 1 did not come in time to the exchange of the tokens, or the gradients of results, 2; make a new group" in text


@pytest.mark.parametrize("name", expert_ranks.WRONG_GROUPS)
def test_groups_that_differ(found, name):
    """Both ranks say the same, and name the rank and its value."""
    first, second = (found[2 + rank]["wrong groups"][name] for rank in range(RANKS))
    if name == "wrong max_tokens":
        assert second == "ValueError: max_tokens: got 0; expected a whole number, 1 at least."
        told = second.removeprefix("ValueError: ")
        assert first.startswith(f"ValueError: group: got wrong arguments on rank 1 ({told}); expected")
    elif name == "wrong experts":
        assert first.startswith("ValueError: experts: got 5; expected a multiple of 2, the number of ranks.")
        assert "wrong arguments on rank 0 (experts: got 5" in second
    else:
        assert first == second
        assert re.match(rf"ValueError: {name}: got .* on rank 1; expected .*, as on rank 0\. Pass equal arguments", first), first


@pytest.mark.parametrize("name", expert_ranks.WRONG_ARGUMENTS)
def test_wrong_arguments_of_a_group(found, name):
    for rank in range(RANKS):
        said = found[2 + rank]["wrong groups"]["both", name]
        assert re.match(rf"ValueError: {re.split(' |.s ', name.replace(chr(39), ' '))[0]}: got .*; expected .*\.", said), said


def test_a_closed_group_and_no_group(found):
    said = found[2]["wrong groups"]
    assert re.match(r"ValueError: group: got expert group \d+ of .*, which was closed; expected an open group", said["closed"])
    assert said["process_group"].startswith("ValueError: process_group: got str; expected a ProcessGroup, a DeviceMesh or None.")
    assert said["mesh"].startswith("ValueError: process_group: got a mesh of 2 dimensions; expected one dimension.")
    with pytest.raises(ValueError, match=r"^process_group: got no process group; expected an initialized torch.distributed\."):
        ExpertGroup(max_tokens=1, experts=2, choices=1, hidden=64)


def test_calls_with_other_numbers_of_tokens_eager_and_compiled(found):
    """Rank 1 needs no gradient of x, then of the weights either, then none. It takes part in those of rank 0."""
    for number, fixed in enumerate((1, 2, 4)):
        for rank in range(RANKS):
            eager, compiled = found[rank]["many sizes"][number]
            assert [gradient is None for gradient in eager[1:]] == [rank == 1 and i < fixed for i in range(4)]
            for ours, theirs in zip(eager, compiled, strict=True):
                assert (ours is None and theirs is None) or torch.equal(ours, theirs)
    # A compiled call counts the tokens when it runs.
    assert "x: got 13 tokens; expected at most 12" in found[1]["many sizes"][3]
    assert "got a wrong x on rank 1" in found[0]["many sizes"][3]


def test_a_module_of_a_group(found):
    for rank in range(RANKS):
        said = found[2 + rank]["module"]
        assert all(torch.equal(said["made"][0], made) for made in said["made"][1:]) and not said["requires"]
        assert said["repr"].endswith(f", rank {rank} of 2)")
        assert said["pickle"].startswith("TypeError: group: got an ExpertGroup to pickle; expected a state without it")
        assert said["experts"].startswith("ValueError: up: got 3 experts; expected 2, the experts of a rank.")
        assert said["hidden"] == "ValueError: up: got 128 columns; expected 64, hidden of the group."
        assert said["no group"].startswith("ValueError: group: got str; expected an ExpertGroup or None.")
        assert said["no group of a module"].startswith("ValueError: group: got Exchange; expected an ExpertGroup or None.")
        assert said["second"].startswith("RuntimeError: ") and "create_graph=True" in said["second"]
        assert said["counts"].tolist() == [1, 0, 0, 3] and said["counts"].dtype == torch.int32
        assert said["wrong counts"] == "ValueError: ids: got torch.float32; expected a tensor of int32 or int64."
    assert "x: got a tensor that requires a gradient" in found[3]["module"]["frozen"]
    assert "got a wrong x on rank 1" in found[2]["module"]["frozen"]


def test_weights_that_fsdp_shards_over_the_other_dimension(found):
    """Two ranks of experts times two of shards: as one process with all tokens, and the mean of the shards' gradients."""
    given = wanting(weights_of(WIDE, EXPERTS)[:2])
    optimizer = torch.optim.SGD(given, lr=0.5)
    begin = [tensor.detach().clone() for tensor in given]
    for step in range(expert_ranks.STEPS):
        for shard in range(2):
            tokens = [expert_ranks.wide_tokens(step, shard, rank) for rank in range(RANKS)]
            x, weights, d_out = (torch.cat([of_rank[i] for of_rank in tokens]) for i in (0, 1, 3))
            moe(x, torch.cat([ids_of(WIDE, rank) for rank in range(RANKS)]), weights, *given).backward(d_out / 2)
        optimizer.step()
        optimizer.zero_grad()
    for i, (whole, first) in enumerate(zip(given, begin)):
        assert float((whole.detach() - first).abs().max()) > 0.01
        for number in range(2 * RANKS):
            wanted = of_rank(WIDE, whole.detach(), number % RANKS)
            torch.testing.assert_close(found[number]["sharded"][i], wanted, rtol=1e-3, atol=1e-4)


def test_sizes_of_the_cases():
    """A token's experts are on both ranks, and ranks have fewer tokens than room."""
    numbers = torch.cat([ids_of(CASES["tokens of both"], rank) for rank in range(RANKS)])
    assert bool(((numbers < 2).any(1) & (numbers >= 2).any(1)).any()) and INNER % 32 == 0
