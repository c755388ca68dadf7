"""The options of the calls that reach the library, for tests of `tilewright.options`."""

import sys

from tilewright import _core

OPTIONS = {"invariant": True, "overlap": True, "planned_device": "h20"}
BUILT_IN = (False, False, "automatic")


def record(monkeypatch):
    """A list to which each product, and each direction of a layer, appends its (invariant, overlap, planned_device)."""
    reached, real = [], _core.multiply

    def recording(a, b, *, groups, options):
        reached.append(tuple(options[name] for name in OPTIONS))
        return real(a, b, groups=groups, options=options)

    def reach(word):
        reached.append((word[0] == "1", word[1] == "1", word[2:]))

    def recording_layer(direction):
        def call(*arguments):
            reach(arguments[-1])
            return direction(*arguments)

        return call

    monkeypatch.setattr(_core, "multiply", recording)
    for name in ("linear_forward", "linear_backward"):
        monkeypatch.setattr(_core, name, recording_layer(getattr(_core, name)))
    if "torch" in sys.modules:
        import torch_layers

        torch_layers.watch_planned(monkeypatch, lambda _, word: reach(word))
    return reached
