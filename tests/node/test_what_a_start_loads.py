"""A node that starts imports what it has, and the rest at the first use."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.node import loading

PROGRAM = """
import os, sys
from odradek.cli import serve
from odradek.cli.main import run

def started(client_settings, node):
    print(*(name for name in sys.modules if name.startswith("odradek.")))
    sys.stdout.flush()
    os._exit(0)

serve._greet = started
run(["serve", "--host", "127.0.0.1", "--port", "0", "--data", sys.argv[1]])
"""
LATER = (
    "odradek.broker.coordinator.",
    "odradek.broker.share.",
    "odradek.core.group",
    "odradek.core.share",
    "odradek.core.transaction",
    "odradek.handlers.k",
    "odradek.handlers.sasl_gate",
    "odradek.handlers.tls_gate",
    "odradek.node.metrics.sections",
    "odradek.wire.declaration",
)
EXCEPT = ("odradek.broker.coordinator.coordinators",)


def test_a_node_loads_no_handler_and_no_coordinator_before_it_needs_them(tmp_path: Path) -> None:
    """Every module takes time before the port opens. What is used later is imported later.

    A module that is named in a failure has got an import at the top of a module that a start needs.
    See docs/architecture.md, "What a start loads".
    """
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "data")]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ, text=True)
    loaded = found.stdout.split()
    assert "odradek.node.node" in loaded
    assert [n for n in loaded if n.startswith(LATER) and n not in EXCEPT] == []


def test_every_module_of_a_node_can_be_imported() -> None:
    """What is imported at the first use must not fail there."""
    packages = ("broker", "core", "handlers", "log", "network", "node", "records", "wire")
    names = [
        each.name
        for package in packages
        for each in pkgutil.walk_packages(
            importlib.import_module(f"odradek.{package}").__path__, f"odradek.{package}."
        )
    ]
    assert len(names) > 700
    for name in names:
        importlib.import_module(name)


def test_what_a_start_leaves_out_is_loaded_afterwards() -> None:
    program = """
import asyncio, sys
from odradek.node import loading
assert not any(name.startswith("odradek.handlers.k") for name in sys.modules)
asyncio.run(loading.load_the_rest())
assert set(loading.left_out()) <= sys.modules.keys()
assert "odradek.handlers.k00_produce" in sys.modules
assert "odradek.broker.coordinator.group_coordinator" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ)


def test_a_module_that_cannot_be_loaded_keeps_no_other_from_being_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its error may be of any class, and it is tried again."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(loading, "left_out", lambda: iter(["loaded_broken", "loaded_whole"]))
    monkeypatch.setattr(loading, "RETRY_SECONDS", 0.01)
    broken = tmp_path / "loaded_broken.py"
    broken.write_text("raise KeyError('a defect')\n")
    (tmp_path / "loaded_whole.py").touch()

    async def mend() -> None:
        work = asyncio.ensure_future(loading.load_the_rest())
        while "loaded_whole" not in sys.modules or "a defect" not in caplog.text:
            await asyncio.sleep(0.001)
        broken.write_text("mended = True\n")
        importlib.invalidate_caches()
        await work

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(mend(), 20))
    assert sys.modules.pop("loaded_broken").mended
    del sys.modules["loaded_whole"]
    assert "1 modules of the node cannot be loaded now, first loaded_broken" in caplog.text
