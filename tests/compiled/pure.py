"""The package's Python source, imported beside the compiled modules of the same names."""

from __future__ import annotations

import importlib
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import FileFinder, SourceFileLoader
from types import ModuleType


class SourceOnly(MetaPathFinder):
    """Finds modules of the package as Python source, never as extension modules."""

    def find_spec(self, fullname, path, target=None):
        if fullname.partition(".")[0] != "odradek":
            return None
        for directory in path or sys.path:
            spec = FileFinder(directory, (SourceFileLoader, [".py"])).find_spec(fullname)
            if spec is not None:
                return spec
        return None


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == "odradek"


def import_pure(*names: str) -> list[ModuleType]:
    """Import modules, and what they import of the package, as Python source.

    The modules of the same names that were imported before are back when this returns.
    """
    importlib.import_module("odradek")
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_ours(name)}
    finder = SourceOnly()
    sys.meta_path.insert(0, finder)
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _is_ours(name)]:
            del sys.modules[name]
        sys.modules.update(before)
