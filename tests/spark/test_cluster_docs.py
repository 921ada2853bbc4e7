"""The settings of Spark on the page of clusters exist in the installed version of Spark."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "spark-clusters.md"
JARS = Path(pyspark.__file__).parent / "jars"
PARTS = ("core", "kubernetes", "yarn")
SETTING = re.compile(r"(?<![.a-z])spark\.[a-z][A-Za-z.]+[A-Za-z]")
OF_USERS = re.compile(r"(spark\.executorEnv\.|spark\.kubernetes\.executor\.volumes\.).*")
"""What follows the prefix is a name that users choose."""
CODE = re.compile(rb"spark\.[a-z][A-Za-z.]+[A-Za-z.]")


@pytest.fixture(scope="module")
def known() -> set[str]:
    """All texts in Spark's classes that look like settings."""
    found: set[bytes] = set()
    for part in PARTS:
        (jar,) = JARS.glob(f"spark-{part}_*.jar")
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith(".class") and ("onf" in name or "executor" in name.lower()):
                    found.update(CODE.findall(archive.read(name)))
    return {each.decode() for each in found}


def test_the_settings_exist(known):
    settings = set(SETTING.findall(PAGE.read_text(encoding="utf-8")))
    named = {OF_USERS.sub(r"\1", each) for each in settings}
    assert len(named) > 10
    assert named - known == set()
