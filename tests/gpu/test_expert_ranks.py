"""Layers of experts over two Hopper GPUs, a process each, with NCCL: calls, graphs, training, and ranks that are wrong or gone."""

import pickle

import pytest

torch = pytest.importorskip("torch")
if torch.cuda.device_count() < 2 or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs two Hopper GPUs", allow_module_level=True)

import expert_ranks_captured  # noqa: E402
import expert_ranks_nccl  # noqa: E402


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The results of the two processes."""
    folder = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.spawn(expert_ranks_nccl.run, (str(folder / "rendezvous"), str(folder / "results")), 2)
    return [pickle.loads((folder / f"results{rank}").read_bytes()) for rank in range(2)]


@pytest.mark.parametrize("name", expert_ranks_nccl.FORMS)
def test_calls_have_the_results_of_one_gpu(found, name):
    for rank in range(2):
        exchange, combine, error = found[rank]["calls"][name]
        assert (exchange, combine) == expert_ranks_nccl.FORMS[name][:2]
        if combine == "rows":
            assert error == 0
        elif name.endswith("float32 sums"):  # only the last rounding differs, now and then
            assert error < found[rank]["calls"][f"{exchange}, sums"][2] / 4
        else:
            assert 0 < error < 2**-8


@pytest.mark.parametrize("exchange", ["addresses", "collectives"])
def test_an_nccl_communicator_is_an_engine(found, exchange):
    for rank in range(2):
        assert found[rank]["communicator"][exchange] == (exchange, [0.0] * 3)


@pytest.mark.parametrize("exchange", ["peer", "dense"])
def test_a_graph_is_replayed_with_other_tokens(found, exchange):
    """1,000 replays with other routing and numbers of tokens, and another kernel at the same time, have the bits of one GPU."""
    assert [found[rank]["graphs"][exchange] for rank in range(2)] == [1000, 1000]


@pytest.mark.parametrize("recipe", expert_ranks_nccl.RECIPES)
def test_training_has_the_results_of_one_gpu(found, recipe):
    """Gradients of experts have one GPU's bits. Results and gradients of tokens are sums of ranks, rounded once per rank.
    Peer memory and collectives have the same bits."""
    for rank in range(2):
        of = found[rank]["training"][recipe]
        assert of["transports"] == ["PeerMemory", "Collectives"] and of["same"]
        errors = of["errors"]
        assert errors["up"] == errors["down"] == errors["weights"] == 0, errors
        assert errors["out"] < 2**-8 and errors["x"] < 2**-8, errors


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    """The results of two other processes, so that a capture that fails spoils no other test."""
    return expert_ranks_captured.results_of_ranks(tmp_path_factory.mktemp("captured"))


@pytest.mark.parametrize("name", expert_ranks_captured.CASES)
def test_a_captured_step_has_the_bits_of_eager_calls(captured, name):
    """Forward and backward in one graph, replayed with other tokens, routing, numbers of tokens and weights."""
    for rank in range(2):
        case = captured[rank].get(name, {"error": "a case before this one failed"})
        assert "error" not in case, f"rank {rank}: {case['error']}"
        assert case["replays"] == expert_ranks_captured.REPLAYS
        assert not case["differing"], f"rank {rank}, (replay, tensor): {case['differing'][:10]} of {len(case['differing'])}"


@pytest.mark.parametrize("name", expert_ranks_captured.CASES)
def test_a_captured_step_has_the_results_of_one_gpu(captured, name):
    """Within the bounds of training without a graph."""
    for rank in range(2):
        errors = captured[rank].get(name, {}).get("worst")
        assert errors, f"rank {rank}: no results; see the test of bits"
        assert errors["up"] == errors["down"] == errors["weights"] == 0, errors
        assert errors["out"] < 2**-8 and errors["x"] < 2**-8, errors


def test_a_wrong_call_is_told_to_the_other_rank(found):
    """At its next call, whose own result is right."""
    ours, theirs = found[0]["wrong"], found[1]["wrong"]
    assert theirs[1].startswith("ValueError: x: got") and [theirs[0], theirs[2], theirs[3]] == ["right"] * 3
    assert ours[2].startswith("InvalidCall: group: got a wrong call on rank 1, which is call 2 of the group; expected correct calls")
    assert [ours[0], ours[3]] == ["right"] * 2


def test_a_rank_that_is_gone_ends_the_wait(found):
    said = found[0]["lost"]
    assert "rank 1 did not come to the barrier ahead of the products of call 2 in time" in said[1]
    assert "a rank was lost in an earlier call; make a new group" in said[2]
