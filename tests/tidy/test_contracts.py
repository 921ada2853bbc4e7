"""Who may import whom: the contracts of pyproject.toml hold, and fail on a planted violation."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.checkout import needs_checkout
from tests.tidy.sources import PACKAGE, ROOT

pytestmark = needs_checkout

LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]

LAYERS = "Layers: each package imports only from the layers below it"
NO_IO = "Deciding code performs no IO and looks at no clock"
SEAMS = "Time, disk, network, threads and randomness come from env"
PRODUCTS = "Products use clients only"
COMPRESSION = "Compression libraries stay in records"
HEAVY = "Heavy libraries stay out of the serving process"
MACHINES = "Machines do not import one another"
PLANTED = {
    "model/topic_partition.py": ("import odradek.config", LAYERS),
    "core/metadata/errors.py": ("import asyncio", NO_IO),
    "handlers/handler.py": ("import time", SEAMS),
    "spark/__init__.py": ("import odradek.broker.clients.request_context", PRODUCTS),
    "wire/names.py": ("import zstandard", COMPRESSION),
    "network/peer.py": ("import pandas", HEAVY),
    "core/session/fetch.py": ("import odradek.core.client_metrics.subscriptions", MACHINES),
}
"""By file of the package: a line that it must not have, and the contract that forbids it."""


def lint(directory: Path) -> dict[str, str]:
    """The verdict on each contract over the package in `directory`."""
    finished = subprocess.run(
        [LINT_IMPORTS, "--no-logo", "--no-cache", "--config", directory / "pyproject.toml"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(directory / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    verdicts: dict[str, str] = {}
    for line in finished.stdout.splitlines():
        found = re.fullmatch(r"(.+) (KEPT|BROKEN)( \(.* ignored imports?\))?", line.strip())
        if found:
            verdicts[found[1]] = found[2]
    assert verdicts, finished.stdout + finished.stderr
    return verdicts


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package without what is generated; the copy may be spoilt."""
    ignored = shutil.ignore_patterns("__pycache__", "generated")
    shutil.copytree(PACKAGE, tmp_path / "src" / "odradek", ignore=ignored)
    generated = tmp_path / "src" / "odradek" / "wire" / "generated"
    generated.mkdir()
    (generated / "__init__.py").touch()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_hold() -> None:
    assert set(lint(ROOT).values()) == {"KEPT"}


def test_planted_violations_break_each_contract(copy: Path) -> None:
    for file, (line, _) in PLANTED.items():
        path = copy / "src" / "odradek" / file
        path.write_text(path.read_text() + f"\n{line}\n")
    verdicts = lint(copy)
    assert {name for name, verdict in verdicts.items() if verdict == "BROKEN"} == {
        contract for _, contract in PLANTED.values()
    }
    assert {contract["name"] for contract in CONTRACTS} == set(verdicts), "each has a plant"


def test_a_package_that_is_not_in_the_layers_breaks_the_contract(copy: Path) -> None:
    (copy / "src" / "odradek" / "attic").mkdir()
    (copy / "src" / "odradek" / "attic" / "__init__.py").touch()
    assert lint(copy)[LAYERS] == "BROKEN"


def test_products_do_not_import_one_another(copy: Path) -> None:
    """Planned ones included: they are in the contract before they exist."""
    for name, line in {
        "balancer": "import odradek.pipelines\n",
        "connect": "import odradek.operations\nimport odradek.rest\n",
        "connectors": "import odradek.connect\n",
        "console": "import odradek.connect\n",
        "rest": "import odradek.client\n",
        "streams": "import odradek.spark\n",
    }.items():
        path = copy / "src" / "odradek" / name / "__init__.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(line)
    assert lint(copy)[LAYERS] == "BROKEN"
    (copy / "src" / "odradek" / "balancer" / "__init__.py").write_text("import odradek.client\n")
    assert lint(copy)[LAYERS] == "KEPT"


def test_every_product_is_kept_from_the_node() -> None:
    sources = next(c for c in CONTRACTS if c["name"] == PRODUCTS)["source_modules"]
    node = {"broker", "handlers", "network", "log", "node", "sim", "testing"}
    ground = {
        "arrow",
        "config",
        "core",
        "env",
        "java_regex",
        "model",
        "records",
        "telemetry",
        "wire",
    }
    products = packages(PACKAGE) - node - ground - {"cli", "console"}
    assert products == {name.rpartition(".")[2] for name in sources}


def packages(directory: Path) -> set[str]:
    return {path.parent.name for path in directory.glob("*/__init__.py")}


def test_every_machine_is_kept_from_the_others() -> None:
    """Metadata and the controller are what machines are about; the others never meet."""
    named = next(c for c in CONTRACTS if c["name"] == MACHINES)["modules"]
    shared = {"metadata", "controller", "coordinator"}
    assert packages(PACKAGE / "core") - shared <= {name.rpartition(".")[2] for name in named}


@pytest.mark.parametrize("contract", [COMPRESSION, HEAVY])
def test_every_package_of_the_serving_process_is_kept_light(contract: str) -> None:
    sources = next(c for c in CONTRACTS if c["name"] == contract)["source_modules"]
    serving = {"broker", "core", "handlers", "log", "network", "node", "wire", "client"}
    assert packages(PACKAGE) & serving <= {name.rpartition(".")[2] for name in sources}


def test_only_env_and_what_is_no_part_of_a_node_may_use_the_operating_system() -> None:
    sources = next(c for c in CONTRACTS if c["name"] == SEAMS)["source_modules"]
    free = {"cli", "client", "demo", "env", "pipelines", "sim", "spark", "streams", "testing"}
    free |= {"connect", "connectors", "rest"}
    assert packages(PACKAGE) - free == {name.rpartition(".")[2] for name in sources}


def test_the_root_of_the_broker_decides_nothing() -> None:
    """It has the parts together; what decides is in a room."""
    root = PACKAGE / "broker"
    assert {path.name for path in root.glob("*.py")} == {"__init__.py", "broker.py"}
    decisions = (ast.If, ast.IfExp, ast.Match, ast.For, ast.While, ast.Try, ast.BoolOp)
    tree = ast.parse((root / "broker.py").read_text(encoding="utf-8"))
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    assert functions
    found = [each for function in functions for each in ast.walk(function)]
    assert not [each for each in found if isinstance(each, decisions)]
