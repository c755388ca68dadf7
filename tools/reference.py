"""pdoc, with names in the place of torch's where torch is not installed, so that what is built on it is described all the same.

    python tools/reference.py [pdoc's arguments]
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types


class Name(type):
    """A class for any name of torch: a base, an annotation, a decorator that changes nothing."""

    def __new__(cls, name, bases=(), members=None):
        return super().__new__(cls, name, bases, dict(members or {}))

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return keep(cls, name)

    def __call__(cls, *given, **named):
        if cls.__module__ != "torch":  # of a class that is built on one
            return super().__call__(*given, **named)
        function = len(given) == 1 and isinstance(given[0], types.FunctionType) and not named
        return given[0] if function else cls

    def __or__(cls, other):
        return cls

    def __ror__(cls, other):
        return cls

    def __getitem__(cls, item):
        return cls

    def __iter__(cls):
        return iter(())


def keep(owner, name):
    """The same name is the same object each time: dtypes are keys of tables."""
    made = Name(name, (), {"__module__": "torch"})
    setattr(owner, name, made)
    return made


class Torch(types.ModuleType):
    __path__ = []
    __version__ = "2.8.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return keep(self, name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] == "torch" else None

    def create_module(self, spec):
        return Torch(spec.name)

    def exec_module(self, module):
        pass


if importlib.util.find_spec("torch") is None:
    sys.meta_path.insert(0, Finder())

if __name__ == "__main__":
    from pdoc.__main__ import cli

    cli(sys.argv[1:])
