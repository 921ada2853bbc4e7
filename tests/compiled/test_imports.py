"""Each module of the package can be imported, in the mode and with the Python of this environment."""

from __future__ import annotations

import importlib.util
import pkgutil
import subprocess
import sys

import odradek

NOT_INSTALLED = {"gssapi"}
"""Packages of extras that the development environment does not have."""


def test_each_module_is_imported():
    names = [each.name for each in pkgutil.walk_packages(odradek.__path__, "odradek.")]
    assert len(names) > 500
    assert "odradek.node.node" in names
    missing = {name for name in NOT_INSTALLED if importlib.util.find_spec(name) is None}
    program = f"""
import importlib
for name in {names!r}:
    if name.endswith("__main__"):
        continue
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name in {missing!r}, (name, error)
"""
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
