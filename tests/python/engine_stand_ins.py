"""Stand-ins for vLLM and SGLang, made of their contracts (engine_contracts, tools/engine_contract).

A module of a stand-in has the names of the contract and nothing else. Functions raise until a test gives them a body with `give`,
which checks the parameters. Classes whose abstract methods are not all defined cannot be made, as in the engine. Bodies are this
project's reading of the engine.
"""

import abc
import ast
import contextlib
import enum
import importlib.machinery
import importlib.util
import inspect
import pathlib
import sys
import types

import tilewright.integrations
from tilewright.integrations import _fit

ROOT = pathlib.Path(__file__).parents[2]


def load_tool():
    """tools/engine_contract as a module."""
    loader = importlib.machinery.SourceFileLoader("engine_contract", str(ROOT / "tools/engine_contract"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("engine_contract", loader))
    loader.exec_module(module)
    return module


TOOL = load_tool()


def literal(text):
    """A default or a value of the contract, or the text itself if it is not a literal."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def parameters(detail):
    """[(name, has a default)] of a list of parameters."""
    given = ast.parse(f"def f({detail}): pass").body[0].args
    positional = [*given.posonlyargs, *given.args]
    optional = len(positional) - len(given.defaults)
    found = [(arg.arg, i >= optional) for i, arg in enumerate(positional)]
    found += [(arg.arg, default is not None) for arg, default in zip(given.kwonlyargs, given.kw_defaults)]
    return found


def parameters_of(function):
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    given = inspect.signature(inspect.unwrap(function)).parameters.values()
    return [(p.name, p.default is not p.empty) for p in given if p.kind not in kinds]


def _function(name, kind, detail):
    """A method or function of the contract that raises."""

    def body(*_, **__):
        raise NotImplementedError(f"the stand-in has no body of {name}")

    body.__name__ = name
    words = kind.split()
    made = abc.abstractmethod(body) if "abstract" in words else body
    wraps = {"static": staticmethod, "class": classmethod, "property": property}
    for word in words:
        made = wraps[word](made) if word in wraps else made
    return made


class _Fields:
    """A dataclass or named tuple of an engine: only the fields of the contract, which have its defaults."""

    _defaults: dict = {}

    def __init__(self, **given):
        unknown = sorted(set(given) - set(self._defaults))
        if unknown:
            raise TypeError(f"{type(self).__name__}: got {unknown}; expected fields of the contract")
        self.__dict__.update(self._defaults | given)


class StandIn:
    """The modules of one version of an engine."""

    def __init__(self, engine, version):
        self.engine, self.version = engine, version
        self.rows = TOOL.read(engine, version)
        self.details = {(module, name): (kind, detail) for module, name, kind, detail in self.rows if not self._is_text(kind)}
        self.calls = {(m, n, k.removeprefix("calls ")): d.split(", ") for m, n, k, d in self.rows if k.startswith("calls")}
        self.modules = {}
        self._classes = {}
        for module, *_ in self.rows:
            self._module(module)
        for (module, name), (kind, detail) in self.details.items():
            self._add(module, name, kind, detail)

    @staticmethod
    def _is_text(kind):
        return kind in ("contains", "lacks") or kind.startswith("calls")

    def _module(self, name):
        if name not in self.modules:
            module = self.modules[name] = types.ModuleType(name)
            module.__path__ = []
            if "." in name:
                parent, _, last = name.rpartition(".")
                setattr(self._module(parent), last, module)
        return self.modules[name]

    def _add(self, module, name, kind, detail):
        if "." in name or kind.endswith("class"):
            self._class(module, name.split(".")[0])
        elif kind == "import":
            pass  # once its origin is complete: see `place`
        elif kind.endswith("function"):
            setattr(self.modules[module], name, _function(name, kind, detail))
        else:
            text = detail.partition(" = ")[2] if kind == "field" else detail
            setattr(self.modules[module], name, {} if text == "dict" else literal(text))

    def _class(self, module, name):
        if (module, name) in self._classes:
            return self._classes[module, name]
        members = {n.split(".")[1]: row for (m, n), row in self.details.items() if m == module and n.startswith(f"{name}.")}
        kinds = {kind for kind, _ in members.values()}
        if kinds == {"value"}:
            made = enum.Enum(name, {n: literal(detail) for n, (_, detail) in members.items()})
        else:
            bases = self._bases(module, name)
            fields = {n: literal(d.partition(" = ")[2] or "None") for n, (kind, d) in members.items() if kind == "field"}
            body = {n: _function(f"{name}.{n}", *row) for n, row in members.items() if row[0].endswith("function")}
            if fields and bases == (object,):
                bases, body["_defaults"] = (_Fields,), fields
                body = {n: value for n, value in body.items() if not isinstance(value, property)}
                fields |= {n: False for n, (kind, _) in members.items() if kind.startswith("property")}
            made = types.new_class(name, bases, exec_body=lambda space: space.update(body))
        made.__module__ = module
        self._classes[module, name] = made
        setattr(self.modules[module], name, made)
        return made

    def _bases(self, module, name):
        text = self.details.get((module, name), ("", ""))[1]
        known = {n: m for (m, n), (kind, _) in self.details.items() if kind.endswith("class")}
        bases = [self._class(known[base], base) for base in _names_of(text) if base in known]
        return tuple(bases) if bases else (abc.ABC if "ABC" in _names_of(text) else object,)

    def give(self, module, name, function):
        """A body for a function or method of the contract: `function`, whatever kind of method it is."""
        kind, detail = self.details[module, name]
        assert parameters_of(function) == parameters(detail), f"{name}: got {parameters_of(function)}; expected {detail}"
        wraps = {"static": staticmethod, "class": classmethod, "property": property}
        for word in kind.split():
            function = wraps[word](function) if word in wraps else function
        owner = self.modules[module]
        for part in name.split(".")[:-1]:
            owner = getattr(owner, part)
        setattr(owner, name.split(".")[-1], function)

    def keywords(self, module, name, function):
        """The keywords of the engine's call."""
        return self.calls[module, name, function]

    @contextlib.contextmanager
    def place(self, monkeypatch):
        """The stand-in as the installed engine, with its version."""
        for (module, name), (kind, detail) in self.details.items():
            if kind == "import":
                origin = detail if not detail.startswith(".") else module + detail
                setattr(self.modules[module], name, getattr(self.modules[origin], name))
        _forget_doors()
        for name, module in self.modules.items():
            monkeypatch.setitem(sys.modules, name, module)
        versions = types.SimpleNamespace(version=lambda _: self.version, PackageNotFoundError=_fit.metadata.PackageNotFoundError)
        monkeypatch.setattr(_fit, "metadata", versions)
        monkeypatch.setattr(_fit, "_told", set())
        yield self
        _forget_doors()


def _names_of(bases):
    """Names of a list of bases, without what is in brackets."""
    nodes = ast.parse(f"f({bases})").body[0].value.args
    return [node.value.id if isinstance(node, ast.Subscript) else ast.unparse(node).split(".")[-1] for node in nodes]


def _forget_doors():
    """Modules that have imported an engine. The next import sees the next stand-in."""
    for name in ("_vllm_fit", "_vllm_experts", "_vllm_linear", "_sglang_fit", "_sglang_layers"):
        sys.modules.pop(f"tilewright.integrations.{name}", None)
        if hasattr(tilewright.integrations, name):
            delattr(tilewright.integrations, name)
