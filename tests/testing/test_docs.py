"""The examples of docs/testing.md run unchanged, and the document lists every method."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.testing import Broker, Cluster

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")


def test_the_examples_run(tmp_path):
    examples = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    (tmp_path / "test_examples.py").write_text("\n\n".join(examples), encoding="utf-8")
    # With --assert=rewrite, pytest rewrites all modules of the package, because it has a plugin.
    options = ["-q", "-p", "no:cacheprovider", "--assert=plain"]
    words = [sys.executable, "-m", "pytest", *options, tmp_path]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert f"{TEXT.count('def test_')} passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("kind", [Broker, Cluster])
def test_everything_that_it_can_do_is_described(kind):
    public = {name for name in dir(kind) if not name.startswith("_")}
    assert public - set(re.findall(r"`(\w+)[`(]", TEXT)) == set()
