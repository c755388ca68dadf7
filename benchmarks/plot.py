"""Draws a roofline and bars against live peers, as PNG and SVG, from lines of `tilewright bench --json`.

python benchmarks/plot.py [--results benchmarks/results/h200.jsonl] [--to build/plots]

The last line of each peer, operation, shape and flush counts. Needs matplotlib.
"""

import argparse
import collections
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = pathlib.Path(__file__).parent


def device_fields(path):
    """The numbers in a device table of the planner, by field."""
    fields = {}
    for line in path.read_text().splitlines():
        cells = line.split("\t")
        if len(cells) == 4 and cells[0] != "field" and cells[2] != "-":  # a field without a unit is text
            fields[cells[0]] = float(cells[1])
    return fields


H200 = device_fields(HERE.parent / "src/plan/devices/h200.tsv")
MEMORY_BYTES_PER_SECOND = H200["memory_bytes_per_second"]
TENSOR_FLOPS_PER_SECOND = 2 * H200["fp8_products_per_clock"] * H200["sms"] * H200["boost_hertz"]
# A palette that is distinguishable with any kind of colour vision (Okabe and Ito).
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#F0E442"]
CLASSES = [("m >= 4096", 4096, 1 << 62), ("m = 129 .. 4095", 129, 4095), ("m <= 128", 0, 128)]


def read_lines(path):
    """The dense lines of a file with a clean flush, by peer and shape; for our lines only those with tuned rows."""
    times = {}
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            usual = row.get("flush", "clean") == "clean" and row.get("tuned_rows", True)
            if row["op"] == "dense" and usual:
                times[row["peer"], tuple(row["shape"])] = row["us"]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise SystemExit(f"plot: {path}, line {number}: {error!r}") from error
    return times


def by_peer(times):
    peers = collections.defaultdict(dict)
    for (peer, shape), us in times.items():
        peers[peer][shape] = us
    return dict(peers)


def flops(shape):
    m, n, k = shape
    return 2 * m * n * k


def compulsory_bytes(shape):
    """Bytes: fp8 operands read once, bf16 D written once. Scales, less than 4 % of that, are not counted."""
    m, n, k = shape
    return m * k + n * k + 2 * m * n


def roofline(peers, chosen):
    figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
    intensities = sorted([TENSOR_FLOPS_PER_SECOND / MEMORY_BYTES_PER_SECOND, *(2**i for i in range(6, 14))])
    roof = [min(TENSOR_FLOPS_PER_SECOND, MEMORY_BYTES_PER_SECOND * each) * 1e-12 for each in intensities]
    axes.plot(intensities, roof, color="black", label="HBM at 4.37 TB/s, tensor cores at 1.98 GHz")
    for colour, peer in zip(COLOURS, chosen, strict=False):
        points = [(flops(s) / compulsory_bytes(s), flops(s) / us * 1e-6) for s, us in sorted(peers[peer].items())]
        axes.scatter(*zip(*points, strict=True), color=colour, label=peer, s=28, alpha=0.8)
    axes.set(xscale="log", yscale="log", xlabel="flop per compulsory byte", ylabel="TFLOP/s")
    axes.set_title("Dense products on one H200, L2 flushed clean")
    axes.grid(visible=True, which="both", alpha=0.2)
    axes.legend(fontsize=8)
    return figure


def bars(peers, chosen):
    """The time of each peer divided by ours. Above 1 we are faster."""
    ours = peers[chosen[0]]
    figure, all_axes = plt.subplots(len(CLASSES), 1, figsize=(11, 10), layout="constrained")
    for axes, (title, least, most) in zip(all_axes, CLASSES, strict=True):
        shapes = sorted(shape for shape in ours if least <= shape[0] <= most)
        width = 0.8 / max(1, len(chosen) - 1)
        for index, peer in enumerate(chosen[1:]):
            known = [
                (place, peers[peer][shape] / ours[shape]) for place, shape in enumerate(shapes) if shape in peers[peer]
            ]
            places = [place + (index + 0.5) * width - 0.4 for place, _ in known]
            axes.bar(places, [ratio for _, ratio in known], width, color=COLOURS[index + 1], label=peer)
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_xticks(range(len(shapes)), [" x ".join(map(str, shape)) for shape in shapes], fontsize=7, rotation=15)
        axes.set(title=title, ylabel="time of the peer / ours")
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8)
    figure.suptitle(f"{chosen[0]} against its peers (m x n x k)")
    return figure


def save(figure, folder, name):
    for kind in ("png", "svg"):
        path = folder / f"{name}.{kind}"
        figure.savefig(path, dpi=150)
        print(path)
    plt.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", default=HERE / "results/h200.jsonl", help="lines of `tilewright bench --json`")
    parser.add_argument("--ours", default="1x128:128x128", help="which of our lines: part of its name")
    parser.add_argument("--to", default=HERE.parent / "build/plots", type=pathlib.Path, help="folder")
    options = parser.parse_args(arguments)
    if not pathlib.Path(options.results).exists():
        raise SystemExit(f"plot: {options.results} is missing; `make gpu-bench` writes it")
    results = by_peer(read_lines(options.results))
    own = [peer for peer in results if peer.startswith("Tilewright") and options.ours in peer]
    if not own:
        raise SystemExit(f"plot: no line of Tilewright with '{options.ours}' in {options.results}: {sorted(results)}")
    # The stream does not multiply.
    live = [peer for peer in results if not peer.startswith(("Tilewright", "TMA stream"))]
    chosen = [own[-1], *live]
    options.to.mkdir(parents=True, exist_ok=True)
    save(roofline(results, chosen), options.to, "roofline")
    save(bars(results, chosen), options.to, "peers")


if __name__ == "__main__":
    main()
