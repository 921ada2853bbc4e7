"""Finds the application in a file of the user."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from odradek.core.streams.model.errors import TopologyError
from odradek.streams.app import App
from odradek.streams.process.program import MODULE


def load(path: Path) -> App:
    """Run a file, and return the `App` in it: the one named `app`, or the only one.

    Raises:
        TopologyError: there is none, or it is not clear which.
    """
    spec = importlib.util.spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None:
        raise TopologyError(f"{path} is no file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    found = {name: each for name, each in vars(module).items() if isinstance(each, App)}
    if isinstance(found.get("app"), App):
        return found["app"]
    if len(set(found.values())) != 1:
        names = ", ".join(sorted(found)) or "none"
        raise TopologyError(f"{path} must have one App, or one with the name app; it has {names}")
    return next(iter(found.values()))
