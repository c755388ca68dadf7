"""A layer that ranks share, on a Hopper GPU: the ranks are threads with a stream each, on one GPU. Bits of one rank."""

import functools
import threading

import pytest
import tilewright as tw
from tilewright import _core

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

# Activations, weights. Recipes with a scale of a whole tensor are not here, because h has another scale on each rank.
RECIPES = [
    ("1x128", "128x128"), ("row", "row"), ("mxfp8", "mxfp8"), ("1x128", "mxfp4"), ("mxfp8", "mxfp4"), ("bf16", "mxfp4"),
    ("bf16", "nvfp4"), ("1x128.ue8m0", "128x128"),
]  # fmt: skip
EXCHANGES = ["collectives", "addresses"]


def random(seed):
    return torch.Generator().manual_seed(seed)


class Whole:
    """A layer of one rank, and its parts."""

    def __init__(self, recipe=("1x128", "128x128"), tokens=40, k=3, experts=24, hidden=384, inner=256, seed=0):
        self.activations, weights = recipe
        self.tokens, self.k, self.experts, self.hidden = tokens, k, experts, hidden
        numbers = random(seed)
        shapes = (experts, 2 * inner, hidden), (experts, hidden, inner)
        self.up, self.down = [
            tw.quantize(torch.randn(shape, generator=numbers) * shape[2] ** -0.5, weights) for shape in shapes
        ]
        self.reroute(seed + 1)

    def reroute(self, seed, least=-1):
        numbers = random(seed)
        self.x = torch.randn(self.tokens, self.hidden, generator=numbers).bfloat16().cuda()
        self.ids = torch.randint(least, self.experts + 1, (self.tokens, self.k), generator=numbers).cuda()
        self.weights = torch.rand(self.tokens, self.k, generator=numbers).cuda()

    def result(self, **options):
        up, down = taken(self.up, slice(None)), taken(self.down, slice(None))
        given = {"experts": self.ids, "weights": self.weights, "activations": self.activations, **options}
        return tw.moe(self.x, up, down, **given)

    def options(self, **more):
        return {"max_tokens": self.tokens, "hidden": self.hidden, "experts": self.experts, "choices": self.k,
                "activations": self.activations, "seconds": 10.0, **more}  # fmt: skip


def here():
    return torch.cuda.current_stream().cuda_stream


def taken(weights, part):
    """Experts on the GPU."""
    parts = [None if tensor is None else tensor[part].cuda() for tensor in (weights.values, weights.scales, weights.tensor_scale)]
    return tw.Quantized(parts[0], weights.recipe, parts[1], parts[2])


@functools.cache
def stream_of(rank):
    """One stream for all calls of a rank: the work of a new one may wait for a kernel that waits for this rank."""
    return torch.cuda.Stream()


def by_ranks(ranks, work):
    """Runs work(rank, its ranks) in threads, each with its stream. Returns their results; raises the first error."""
    made, errors = [None] * ranks, []

    def run(rank, own):
        try:
            with torch.cuda.stream(stream_of(rank)):
                made[rank] = work(rank, own)
                torch.cuda.current_stream().synchronize()
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=run, args=given) for given in enumerate(_core.ranks_of_threads(ranks, 0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return made


def split(tokens, ranks, seed):
    """The first token of each rank: some have none."""
    begins = torch.randint(0, tokens + 1, (ranks - 1,), generator=random(seed)).sort().values.tolist()
    return list(zip([0, *begins], [*begins, tokens]))


def load_kernels(whole, ranks, seed=3, **options):
    """Makes the call with waits of a nanosecond. A kernel is loaded when no other one waits for a rank."""

    def work(rank, own):
        group, call = rank_of(whole, rank, ranks, own, seed, {**options, "seconds": 1e-9})
        call()
        group.decline(here())
        torch.cuda.current_stream().synchronize()

    by_ranks(ranks, work)


def rank_of(whole, rank, ranks, own, seed, options):
    """A rank's group and its call."""
    group, each = _core.ExpertGroup(own, whole.options(**options)), whole.experts // ranks
    part = slice(*split(whole.tokens, ranks, seed)[rank])
    parts = [taken(weights, slice(rank * each, (rank + 1) * each)) for weights in (whole.up, whole.down)]
    keywords = {"experts": whole.ids[part], "weights": whole.weights[part], "activations": whole.activations}
    extra = {"invariant": True} if options.get("invariant") else {}
    x = whole.x[part]
    return group, lambda: group.moe(x, *parts, keywords, extra, here())


def shared_result(whole, ranks, seed=3, calls=1, **options):
    """The results of all ranks, one after another."""
    load_kernels(whole, ranks, seed, **options)
    all_are_ready = threading.Barrier(ranks)

    def work(rank, own):
        group, call = rank_of(whole, rank, ranks, own, seed, options)
        torch.cuda.synchronize()
        all_are_ready.wait()  # from here on no thread waits for the whole GPU
        for _ in range(calls):
            out = call()
        torch.cuda.current_stream().synchronize()
        group.check()
        return out

    return torch.cat(by_ranks(ranks, work))


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("recipe", RECIPES, ids=":".join)
def test_rows_have_the_bits_of_one_rank(recipe, exchange):
    whole = Whole(recipe)
    expected = whole.result(invariant=True)
    given = shared_result(whole, 2, combine="rows", exchange=exchange, invariant=True)
    assert torch.equal(given, expected)


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("tokens", [5, 40, 700])
def test_any_number_of_ranks_has_these_bits(ranks, exchange, tokens):
    whole = Whole(tokens=tokens, seed=ranks)
    expected = whole.result(invariant=True)
    assert torch.equal(shared_result(whole, ranks, combine="rows", exchange=exchange, invariant=True), expected)
    assert torch.equal(shared_result(whole, ranks, combine="rows", exchange=exchange, invariant=True, chunk=16, calls=3), expected)


@pytest.mark.parametrize("sums", ["bf16", "f32"])
@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_sums_are_within_their_bound_and_repeat(ranks, exchange, sums):
    whole = Whole(tokens=300)
    expected = whole.result().float()
    given = shared_result(whole, ranks, combine="sums", exchange=exchange, sums=sums)
    assert torch.equal(shared_result(whole, ranks, combine="sums", exchange=exchange, sums=sums, calls=5), given)
    assert (given.float() - expected).norm() <= expected.norm() * 2.0**-8  # bf16: 2^-9, of independent roundings


def test_a_graph_is_replayed_with_other_routing():
    """Graphs of two ranks run at the same time, with other tokens and numbers of tokens, and another kernel at the same time."""
    whole, ranks, each = Whole(tokens=64), 2, 12
    rows = 32
    static = [[torch.empty_like(tensor[:rows]) for tensor in (whole.x, whole.ids, whole.weights)] for _ in range(ranks)]
    seeds = range(1000)
    all_are_ready = threading.Barrier(ranks)

    def made(rank, own, **other):
        options = {"combine": "rows", "exchange": "addresses", "invariant": True, "max_tokens": rows, **other}
        group = _core.ExpertGroup(own, whole.options(**options))
        parts = [taken(weights, slice(rank * each, (rank + 1) * each)) for weights in (whole.up, whole.down)]
        keywords = {"experts": static[rank][1], "weights": static[rank][2], "activations": whole.activations}
        for tensor in static[rank]:
            tensor.zero_()
        return group, lambda: group.moe(static[rank][0], *parts, keywords, {"invariant": True}, here())

    def load(rank, own):  # as load_kernels
        group, call = made(rank, own, seconds=1e-9)
        call()
        torch.cuda.current_stream().synchronize()
        del group

    def work(rank, own):
        group, call = made(rank, own)
        call()
        torch.cuda.current_stream().synchronize()
        graph = torch.cuda.CUDAGraph()
        with lock, torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
            out = call()
        noise = torch.zeros(1 << 20, device="cuda")
        given = [inputs(whole, seed, rank, rows) for seed in seeds]
        kept = out.new_empty(len(seeds), *out.shape)
        for tensor, value in zip(static[rank], given[0]):  # loads the kernels of these operations
            tensor.copy_(value)
        noise.add_(1)
        kept[0].copy_(out)
        torch.cuda.synchronize()
        all_are_ready.wait()  # from here on no thread waits for the whole GPU, or allocates
        for seed, of_replay in zip(seeds, given):
            for tensor, value in zip(static[rank], of_replay):
                tensor.copy_(value)
            graph.replay()
            noise.add_(1)
            kept[seed].copy_(out)
        torch.cuda.current_stream().synchronize()
        group.check()
        return kept

    lock = threading.Lock()
    by_ranks(ranks, load)
    for rank, results in enumerate(by_ranks(ranks, work)):
        for seed in seeds:
            whole.x, whole.ids, whole.weights = inputs(whole, seed, rank, rows)
            assert torch.equal(results[seed], whole.result(invariant=True)), f"rank {rank}, replay {seed}"


def inputs(whole, seed, rank, rows):
    """A rank's tokens of a replay: those from a random number on choose nothing."""
    numbers = random(seed * 2 + rank)
    x = torch.randn(rows, whole.hidden, generator=numbers).bfloat16().cuda()
    ids = torch.randint(-1, whole.experts, (rows, whole.k), generator=numbers)
    ids[int(torch.randint(0, rows + 1, (1,), generator=numbers)) :] = -1
    return x, ids.cuda(), torch.rand(rows, whole.k, generator=numbers).cuda()


def test_a_wrong_call_and_a_lost_rank_do_not_hang():
    whole = Whole()
    said, all_are_ready = [[], []], threading.Barrier(2)

    def work(rank, own):
        group = _core.ExpertGroup(own, whole.options(exchange="addresses") | {"seconds": 0.5})
        parts = [taken(weights, slice(rank * 12, rank * 12 + 12)) for weights in (whole.up, whole.down)]
        keywords = {"experts": whole.ids, "weights": whole.weights, "activations": whole.activations}
        narrow = whole.x[:, :-128].contiguous()
        torch.cuda.synchronize()
        all_are_ready.wait()  # from here on no kernel is loaded
        for call in range(5):
            if rank == 1 and call == 3:
                return
            try:
                group.moe(narrow if rank == 1 and call == 1 else whole.x, *parts, keywords, {}, here())
                said[rank].append("")
            except (RuntimeError, ValueError) as error:
                said[rank].append(str(error))
            torch.cuda.current_stream().synchronize()

    load_kernels(whole, 2, exchange="addresses")
    by_ranks(2, work)
    assert said[1][0] == said[1][2] == "" and said[1][1].startswith("x: got [40, 256]")
    assert said[0][0] == said[0][1] == said[0][3] == ""
    assert said[0][2].startswith("group: got a wrong call on rank 1, which is call 2 of the group")
    assert "rank 1 did not come to the barrier ahead of the products of call 4" in said[0][4]


class BytesAt:
    """Bytes of the GPU, for torch to read."""

    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (count,), "typestr": "|u1", "version": 3, "stream": None}


def tensor_at(address, count):
    return torch.as_tensor(BytesAt(address, count), device="cuda")


def exchange_of(own, gathered, handed_back, seconds=10.0):
    return _core.PeerExchange(own, gathered, handed_back, seconds)


def load_exchange():
    """A kernel is loaded when no other one waits for another rank."""

    def work(_, own):
        exchange = exchange_of(own, 128, 128)
        some = torch.zeros(128, dtype=torch.uint8, device="cuda")
        exchange.gather([(some.data_ptr(), 128, some.data_ptr())], here())
        exchange.hand_back([(some.data_ptr(), 128)], here())
        torch.cuda.current_stream().synchronize()

    by_ranks(1, work)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_exchanges_of_training_bring_all_bytes(ranks):
    """300 turns of two tensors each, without a wait of the host: no rank writes what another one still reads."""
    turns, sizes = 300, (5000, 77)
    given = torch.randint(0, 256, (2, turns, ranks, sum(sizes) * ranks), generator=random(ranks), dtype=torch.uint8).cuda()
    all_are_ready = threading.Barrier(ranks)

    def work(rank, own):
        exchange = exchange_of(own, 2 * 5120, 2 * 5120)
        gathered = torch.zeros(turns, sum(sizes) * ranks, dtype=torch.uint8, device="cuda")
        back = torch.zeros_like(gathered)
        slices = slice(0, sizes[0] * ranks), slice(sizes[0] * ranks, sum(sizes) * ranks)
        for part in slices:  # loads the kernels of these copies
            back[0, part].copy_(tensor_at(given[1, 0, rank, part].data_ptr(), part.stop - part.start))
        torch.cuda.synchronize()
        all_are_ready.wait()  # from here on no thread waits for the whole GPU, or allocates
        for turn in range(turns):
            sent, begin = [], 0
            for size, part in zip(sizes, slices):
                sent.append((given[0, turn, rank, begin:].data_ptr(), size, gathered[turn, part].data_ptr()))
                begin += size
            exchange.gather(sent, here())
            sent = [(given[1, turn, rank, part].data_ptr(), size) for size, part in zip(sizes, slices)]
            for at, size, part in zip(exchange.hand_back(sent, here()), sizes, slices):
                back[turn, part].copy_(tensor_at(at, size * ranks))
        torch.cuda.current_stream().synchronize()
        return exchange.lost(), gathered, back

    load_exchange()
    for rank, (lost, gathered, back) in enumerate(by_ranks(ranks, work)):
        assert lost is None
        first = given[0, :, :, : sizes[0]].reshape(turns, -1)
        second = given[0, :, :, sizes[0] : sum(sizes)].reshape(turns, -1)
        assert torch.equal(gathered, torch.cat([first, second], 1))
        begin, parts = 0, []
        for size in sizes:
            parts.append(given[1, :, :, begin + rank * size : begin + (rank + 1) * size].reshape(turns, -1))
            begin += size * ranks
        assert torch.equal(back, torch.cat(parts, 1))


def test_an_exchange_names_the_rank_that_is_gone():
    all_are_ready, said = threading.Barrier(2), []

    def work(rank, own):
        exchange = exchange_of(own, 128, 128, 0.5)
        some = torch.zeros(256, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        all_are_ready.wait()
        for turn in range(3):
            if rank == 1 and turn == 1:
                return
            exchange.gather([(some.data_ptr(), 128, some.data_ptr())], here())
            exchange.hand_back([(some.data_ptr(), 128)], here())
            torch.cuda.current_stream().synchronize()
            if rank == 0:
                said.append(exchange.lost())

    load_exchange()
    by_ranks(2, work)
    assert said == [None, (1, 1, True), (1, 1, True)]
