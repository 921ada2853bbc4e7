"""Makes the build that is measured: the wheel of the current commit (the default), or the checkout.

The wheel is built from the files of the commit, with uncommitted changes (`git stash create`). If
there are such changes, the name of the commit has a `+`. The wheel is installed into a separate
virtual environment. This environment uses the dependencies of the environment that runs the
benchmark, so nothing is downloaded. The wheel is compiled if there is a C compiler. Each wheel is
built only once, and kept in the cache.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import CACHE, ROOT, Missing, only_one

from bench.machine import commit

WHEEL, PURE = "wheel", "pure"
MODES = (WHEEL, PURE)
BUILDS = CACHE / "builds"

NodeT = TypeVar("NodeT", bound=OdradekNode)


@dataclass(frozen=True)
class Build:
    """An installed package."""

    mode: str
    """`wheel`, or `pure` for the checkout."""
    commit: str
    python: Path
    """The Python interpreter of the environment with the package."""
    compiled_modules: int

    @property
    def kind(self) -> str:
        """`compiled` or `pure`."""
        return "compiled" if self.compiled_modules else "pure"

    def node(self) -> type[OdradekNode]:
        """Return the class of a node that runs this build."""
        return self.measured(OdradekNode)

    def measured(self, kind: type[NodeT]) -> type[NodeT]:
        """Return a subclass of `kind` that runs this build."""
        build = self

        class MeasuredNode(kind):  # type: ignore[valid-type, misc]
            """A node that runs this build."""

            # PYTHONPATH could name a checkout, which would hide the wheel.
            variables_removed = kind.variables_removed | (
                {"PYTHONPATH"} if build.mode == WHEEL else frozenset()
            )

            @property
            def program(self) -> Path:
                return build.python.with_name("odradek")

            def described(self) -> dict[str, object]:
                return {**super().described(), **build.described()}

        return MeasuredNode

    def described(self) -> dict[str, object]:
        """Return mode, kind, number of compiled modules and commit, for the stored results."""
        return {
            "mode": self.mode,
            "build": self.kind,
            "compiled_modules": self.compiled_modules,
            "commit": self.commit,
        }


def add_mode(parser: argparse.ArgumentParser) -> None:
    """Add the option `--mode`."""
    parser.add_argument(
        "--mode",
        choices=MODES,
        default=WHEEL,
        help="measure the wheel of this commit, compiled where it can be (default), or the checkout",
    )


def prepared(mode: str) -> Build:
    """Return the build to measure. Build and install the wheel if needed.

    Raises:
        Missing: the wheel cannot be built. The message has the last lines of pip's output.
    """
    if mode == PURE:
        return Build(PURE, commit(), Path(sys.executable), 0)
    tree = _git("stash", "create") or "HEAD"
    name = _git("rev-parse", f"{tree}^{{tree}}")
    home = BUILDS / name
    with only_one("builds"):
        if not (home / "DONE").exists():
            shutil.rmtree(home, ignore_errors=True)
            print(f"building the wheel of {commit()}", flush=True)
            _install(_built(tree, home), home)
            (home / "DONE").touch()
    package = _site_packages(home) / "odradek"
    compiled = sum(1 for _ in package.rglob("*.so"))
    return Build(WHEEL, commit(), home / "bin" / "python", compiled)


def _built(tree: str, home: Path) -> Path:
    """Build the wheel of the files of a commit, and return its path."""
    wheels = home / "wheel"
    with tempfile.TemporaryDirectory(prefix="odradek-build-") as path:
        command = ["git", "archive", tree]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as archive:
            subprocess.run(["tar", "-x", "-C", path], stdin=archive.stdout, check=True)
        if archive.returncode != 0:
            raise Missing("git cannot give the files of the commit")
        _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), path)
    (wheel,) = wheels.glob("*.whl")
    return wheel


def _install(wheel: Path, home: Path) -> None:
    """Make an environment in `home` with the wheel and the dependencies of this environment."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    ours = sysconfig.get_path("purelib")
    # Python searches a directory that a .pth file names, but does not read the .pth files in this
    # directory. The editable installation of the checkout is such a .pth file, so it has no effect.
    (_site_packages(home) / "dependencies.pth").write_text(f"{ours}\n", encoding="utf-8")
    python = home / "bin" / "python"
    _pip("--python", str(python), "install", "--no-deps", "--no-index", str(wheel))


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words]
    environment = {key: value for key, value in os.environ.items() if key != "ODRADEK_PURE"}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-5:]
        raise Missing(f"the wheel cannot be built: {' | '.join(said)}")


def _site_packages(home: Path) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return home / "lib" / version / "site-packages"


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
