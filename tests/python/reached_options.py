"""The options of the calls that reach the library, for tests of `tilewright.options`."""

from tilewright import _core

OPTIONS = {"invariant": True, "overlap": True, "planned_device": "h20"}
BUILT_IN = (False, False, "automatic")


def record(monkeypatch):
    """A list that each product appends its (invariant, overlap, planned_device) to."""
    reached, real = [], _core.multiply

    def recording(a, b, *, groups, options):
        reached.append(tuple(options[name] for name in OPTIONS))
        return real(a, b, groups=groups, options=options)

    monkeypatch.setattr(_core, "multiply", recording)
    return reached
