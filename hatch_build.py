"""Builds the package: hatchling, with codecs that are generated and modules that are compiled.

This file is the build backend (PEP 517) and hatchling's build hook. A wheel carries the codecs
that are generated from the message declarations, and the modules in `[tool.odradek.compile]`
compiled by mypyc, beside their Python source. Without a C compiler that can build an extension,
or with `ODRADEK_PURE=1`, the wheel has Python source only; the build says so, and `odradek
--version` does. An editable installation is never compiled. See
docs/decisions/compiled-modules.md.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling import build as hatchling_build
from hatchling.build import *  # noqa: F403
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
PROBE = "#include <Python.h>\nint main(void) { return PY_MAJOR_VERSION == 3 ? 0 : 1; }\n"
"""What a compiler has to understand."""


def settings() -> dict[str, Any]:
    """`[tool.odradek.compile]` of pyproject.toml: `compiler` and `modules`."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: dict[str, Any] = tomllib.load(file)["tool"]["odradek"]["compile"]
    return found


def why_pure() -> str | None:
    """Why nothing can be compiled here; None if it can."""
    if os.environ.get("ODRADEK_PURE", "") not in ("", "0"):
        return "ODRADEK_PURE is set"
    if sys.implementation.name != "cpython":
        return f"{sys.implementation.name} is not CPython"
    command = os.environ.get("CC") or sysconfig.get_config_var("CC")
    if not command:
        return "Python does not name a C compiler (set CC)"
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "probe.c")
        source.write_text(PROBE, encoding="utf-8")
        include = sysconfig.get_path("include")
        try:
            done = subprocess.run(
                [*shlex.split(command), f"-I{include}", "-c", str(source), "-o", f"{source}.o"],
                capture_output=True,
                check=False,
            )
        except OSError as error:
            return f"there is no C compiler: {error}"
    if done.returncode:
        return f"{command} finds no Python.h in {include}"
    return None


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """PEP 517: the compiler is fetched only where it is going to be used."""
    required = hatchling_build.get_requires_for_build_wheel(config_settings)
    return required if why_pure() else [*required, settings()["compiler"]]


class BuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds codecs and compiled modules to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        sys.path.insert(0, str(ROOT / "src"))
        from odradek.wire import build

        if version == "editable":
            build.generate(build.GENERATED, build.fingerprint())
            return
        self._scratch = Path(tempfile.mkdtemp(prefix="odradek-build-"))
        source = self._scratch / "src"
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / "src" / "odradek", source / "odradek", ignore=ignored)
        generated = source / "odradek" / "wire" / "generated"
        build.generate(generated, build.BUILT)
        added = [path for path in generated.iterdir() if path.is_file()]
        for path in added:
            build_data["force_include"][str(path)] = str(path.relative_to(source))
        reason = why_pure()
        if reason is None and importlib.util.find_spec("mypyc") is None:
            reason = "mypyc is not installed"
        if reason is not None:
            self.app.display_warning(f"odradek is built without compiled modules: {reason}")
            return
        modules = settings()["modules"]
        self.app.display_info(f"compiling {len(modules)} modules of odradek with mypyc")
        output = self._scratch / "lib"
        done = subprocess.run(
            [sys.executable, __file__, str(source), str(output), *modules], check=False
        )
        if done.returncode:
            raise RuntimeError("odradek cannot be compiled here; ODRADEK_PURE=1 builds without")
        for path in output.rglob("*.so"):
            build_data["force_include"][str(path)] = str(path.relative_to(output))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        scratch = getattr(self, "_scratch", None)
        if scratch is not None:
            shutil.rmtree(scratch)


def compile_modules(source: Path, output: Path, modules: list[str]) -> None:
    """Compile modules below `source` into extension modules below `output`."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    class ParallelBuild(build_ext):
        def build_extensions(self) -> None:
            compile_some = self.compiler.compile
            with ThreadPoolExecutor(os.cpu_count()) as pool:

                def compile_all(sources: list[str], **options: Any) -> list[str]:
                    found = pool.map(lambda each: compile_some([each], **options), sources)
                    return [path for paths in found for path in paths]

                self.compiler.compile = compile_all
                super().build_extensions()

    scratch = output.parent
    os.chdir(source)
    extensions = mypycify(
        [
            "--config-file=",
            "--ignore-missing-imports",
            "--follow-imports=silent",
            f"--cache-dir={scratch / 'mypy'}",
            *(f"{module.replace('.', '/')}.py" for module in modules),
        ],
        group_name="odradek",
        multi_file=True,
        opt_level="1",
        debug_level="0",
        target_dir=str(scratch / "c"),
    )
    command = ParallelBuild(Distribution({"name": "odradek", "ext_modules": extensions}))
    command.build_lib, command.build_temp = str(output), str(scratch / "o")
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()


if __name__ == "__main__":
    compile_modules(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
