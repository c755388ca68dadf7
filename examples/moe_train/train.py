"""Trains a small mixture of experts with bfloat16 and fp8 experts, and checks whether fp8 learns as well.

    python examples/moe_train/train.py                           # a minute on a CPU: bf16 and each recipe for 60 steps
    python examples/moe_train/train.py --steps 600 --seeds 4     # long enough to judge by the losses
    python examples/moe_train/train.py --device cuda --large     # on a Hopper GPU
    python examples/moe_train/train.py --recipes row,row/e5m2    # a recipe with gradients in e4m3 and in e5m2
    python examples/moe_train/train.py --recipes row --fault flushed

The text is most of the Constitution of the United States (text.txt, public domain). Each run prints the held-out loss (mean of
the last tenth of the steps) and the lowest SQNR of one layer's dW against bfloat16.

The exit code is 1 in these cases:

- The SQNR of dW is below 25 dB, or below 22 dB with gradients in e5m2.
- With two or more --seeds, a loss is more than two standard deviations above the mean of bf16.
- With a planted fault, neither of these detects it. (The fault neighbouring-scales shows only in dW; see judgement.py.)
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import time
from typing import Any

import torch
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from judgement import judge  # noqa: E402
from model import LanguageModel, Sizes  # noqa: E402
from observe import FAULTS, Observer  # noqa: E402

TEXT = pathlib.Path(__file__).with_name("text.txt")
RECIPES = ("row", "tensor", "1x128", "1x128:128x128", "fold")
HELD_OUT = 10  # the last 1/10 of the text is held out
BALANCE = 0.01  # the weight of the balance loss


class Text:
    def __init__(self, device: str) -> None:
        codes = TEXT.read_bytes()
        self.vocabulary = sorted(set(codes))
        numbers = {code: i for i, code in enumerate(self.vocabulary)}
        all_of_it = torch.tensor([numbers[code] for code in codes], device=device)
        cut = len(codes) - len(codes) // HELD_OUT
        self.seen, self.held_out = all_of_it[:cut], all_of_it[cut:]

    @staticmethod
    def batch(tokens: torch.Tensor, count: int, context: int, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        begins = torch.randint(len(tokens) - context - 1, (count, 1), generator=random).to(tokens.device)
        places = begins + torch.arange(context, device=tokens.device)
        return tokens[places], tokens[places + 1]


def loss_of(model: LanguageModel, batch: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    logits, balance = model(batch[0])
    return functional.cross_entropy(logits.flatten(0, 1), batch[1].flatten()), balance


def train(recipe: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """One run: the held-out losses and the SQNR of dW, each with its step."""
    text = Text(arguments.device)
    sizes = Sizes(width=512, hidden=1024, experts=8, heads=8, context=256) if arguments.large else Sizes()
    torch.manual_seed(seed)
    model = LanguageModel(sizes, len(text.vocabulary), recipe).to(arguments.device)
    fault = "none" if recipe == "bf16" else arguments.fault
    observer = [Observer(layer.mixture.experts, fault) for layer in model.layers][-1]
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.rate)
    random = torch.Generator().manual_seed(seed)
    always = Text.batch(text.held_out, 4 * arguments.batch, sizes.context, torch.Generator().manual_seed(0))
    last_tenth = arguments.steps - max(1, arguments.steps // 10)
    run: dict[str, Any] = {"recipe": recipe, "seed": seed, "fault": fault, "losses": [], "sqnr": {}}
    begin = time.monotonic()
    for step in range(arguments.steps):
        loss, balance = loss_of(model, Text.batch(text.seen, arguments.batch, sizes.context, random))
        optimizer.zero_grad()
        (loss + BALANCE * balance).backward()
        if step % arguments.every == 0:
            run["sqnr"][step] = observer.sqnr()
        optimizer.step()
        if step >= last_tenth or step % arguments.every == 0:
            with torch.no_grad():
                run["losses"].append((step, float(loss_of(model, always)[0])))
    run["held_out"] = statistics.fmean(value for step, value in run["losses"] if step >= last_tenth)
    run["seconds"] = time.monotonic() - begin
    return run


def show(run: dict[str, Any]) -> None:
    noise = f"{min(run['sqnr'].values()):6.1f} dB" if run["recipe"] != "bf16" else ""
    print(f"{run['recipe']:<13} {run['seed']:>4}  {run['fault']:<20} {run['held_out']:9.4f}  {noise:<12} {run['seconds']:7.1f}", flush=True)


def plot(runs: list[dict[str, Any]], path: str) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.5))
    for run in runs:
        axes.plot(*zip(*run["losses"]), label=f"{run['recipe']}, seed {run['seed']}", linewidth=1)
    axes.set(xlabel="step", ylabel="held-out loss, nats a byte")
    axes.legend(frameon=False)
    figure.savefig(path, bbox_inches="tight")


def recorded(run: dict[str, Any], arguments: argparse.Namespace, origin: dict[str, str]) -> dict[str, Any]:
    """A line of --json: the run, its options and its origin."""
    device = "CPU" if arguments.device == "cpu" else torch.cuda.get_device_name(arguments.device)
    made_of = {"steps": arguments.steps, "batch": arguments.batch, "large": arguments.large, "device": device, "torch": torch.__version__}
    losses = [(step, round(loss, 5)) for step, loss in run["losses"]]
    return run | {"losses": losses, "seconds": round(run["seconds"], 1)} | made_of | origin


def append(path: str, line: dict[str, Any]) -> None:
    """Appends the line in one write, so that processes that share the file do not mix their lines."""
    with open(path, "ab", buffering=0) as file:
        file.write((json.dumps(line) + "\n").encode())


def origin_of(words: list[str]) -> dict[str, str]:
    """Commit, date and command, as in the records of the benchmarks."""
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
    from origin import origin

    return origin() | {"command": " ".join(["examples/moe_train/train.py", *map(str, words)])}


def parsed(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default=",".join(RECIPES), help="fp8 recipes, separated by commas; may be empty. row/e5m2 has its gradients in e5m2")
    parser.add_argument("--seeds", type=int, default=1, help="number of bf16 runs")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first bf16 run")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=8, help="sequences per step")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate of AdamW")
    parser.add_argument("--every", type=int, default=20, help="steps between measurements of dW and the held-out loss")
    parser.add_argument("--fault", choices=FAULTS, default="none", help="fault to plant in all experts of the fp8 runs")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--large", action="store_true", help="use 8 experts of 512 x 1024 and 256 bytes of context")
    parser.add_argument("--json", help="file to which each finished run is appended, one JSON object per line, with losses, device, commit and date")
    parser.add_argument("--plot", help="file for a chart of the held-out losses (PNG or SVG; needs matplotlib)")
    arguments = parser.parse_args(words)
    known = [name + suffix for name in RECIPES for suffix in ("", "/e5m2")]
    arguments.recipes = arguments.recipes.split(",") if arguments.recipes else []
    unknown = [name for name in arguments.recipes if name not in known]
    if unknown:
        parser.error(f"--recipes: got {unknown[0]}; expected one of {', '.join(known[::2])}, optionally followed by /e5m2.")
    if arguments.steps < 1 or min(arguments.seeds, arguments.first_seed) < 0 or arguments.batch < 1 or arguments.every < 1:
        least = "--steps, --batch and --every of at least 1, --seeds and --first-seed of at least 0"
        parser.error(f"got a number that is too small; expected {least}.")
    return arguments


def main(words: list[str] | None = None) -> int:
    arguments = parsed(words)
    print(f"{'recipe':<13} {'seed':>4}  {'fault':<20} {'held out':>9}  {'dW, least':<12} {'seconds':>7}")
    origin = origin_of(sys.argv[1:] if words is None else words) if arguments.json else {}
    runs = []
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    for recipe, seed in [("bf16", seed) for seed in seeds] + [(recipe, 0) for recipe in arguments.recipes]:
        runs.append(train(recipe, seed, arguments))
        show(runs[-1])
        if arguments.json:
            append(arguments.json, recorded(runs[-1], arguments, origin))
    if arguments.plot:
        plot(runs, arguments.plot)
    return judge(runs)


if __name__ == "__main__":
    sys.exit(main())
