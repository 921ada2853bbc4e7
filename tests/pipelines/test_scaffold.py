"""A new pipeline has what its test needs, also within another project, for example a clone of Odradek."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from odradek.pipelines import scaffold

PROJECT = """[tool.pytest.ini_options]
addopts = "-p a_plugin_that_is_missing"
"""


def test_the_settings_of_a_project_around_it_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    scaffold.create("new_sales", tmp_path)
    (tmp_path / "new_sales" / "test_new_sales.py").write_text("def test_it():\n    pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "new_sales"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
