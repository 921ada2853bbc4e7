"""What a wheel contains: with the compiler, without one, and when it is not wanted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("hatch_build.py", "pyproject.toml", "README.md", "LICENSE", ".gitignore", "src")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of what a build reads, as of a fresh clone."""
    copy = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__", "STAMP")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy / name)
    return copy


def build(checkout, directory, hook="build_wheel", **environment):
    """Call a hook of the build backend; the file that it made and what it printed."""
    code = f"import hatch_build; print(hatch_build.{hook}({str(directory)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=checkout,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return directory / done.stdout.splitlines()[-1], done.stdout + done.stderr


def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"ODRADEK_PURE": "1"}, "ODRADEK_PURE is set"),
        ({"CC": "no-such-compiler"}, "there is no C compiler"),
        ({"CC": "false"}, "false finds no Python.h"),
    ],
)
def test_a_pure_wheel(checkout, tmp_path, environment, reason):
    wheel, printed = build(checkout, tmp_path, **environment)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert f"without compiled modules: {reason}" in printed
    content = names(wheel)
    assert len(content) == len(set(content))
    assert not [name for name in content if name.endswith((".so", ".pyc"))]
    assert "odradek/wire/generated/fetch_response.py" in content
    assert "odradek/wire/generated/STAMP" in content
    assert not (checkout / "src/odradek/wire/generated/STAMP").exists(), "the source is untouched"


def test_the_sdist_builds_the_same_wheel(checkout, tmp_path):
    archive, _ = build(checkout, tmp_path, "build_sdist")
    shutil.unpack_archive(archive, tmp_path, filter="data")
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    from_sdist, _ = build(unpacked, tmp_path / "1", ODRADEK_PURE="1")
    from_checkout, _ = build(checkout, tmp_path / "2", ODRADEK_PURE="1")
    assert sorted(names(from_sdist)) == sorted(names(from_checkout))


@pytest.mark.parametrize(("pure", "wanted"), [("1", False), ("0", True)])
def test_the_compiler_is_asked_for_only_where_it_is_used(checkout, pure, wanted):
    code = (
        "import hatch_build as b\n"
        "print(b.why_pure(), b.get_requires_for_build_wheel(), b.get_requires_for_build_editable())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=checkout,
        env=os.environ | {"ODRADEK_PURE": pure},
        capture_output=True,
        text=True,
        check=True,
    )
    has_compiler = done.stdout.startswith("None")
    assert has_compiler <= wanted
    assert done.stdout.count("[mypyc]") == (1 if has_compiler else 0)
