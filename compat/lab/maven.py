"""Fetches jars with Maven into a directory of the cache.

The code lists artifacts as `group:artifact:version`. Maven resolves the dependencies of these
artifacts. The file `DONE` in the directory has the list of the artifacts. The directory is complete
when this file exists and has the wanted list.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from xml.sax.saxutils import escape

from compat.lab.toolchain import CACHE, JAVA, absent, only_one, require

KAFKA_VERSION = "4.3.0"
KAFKA = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)
"""Apache Kafka's server and tools, and a logging backend (the release tarball contains another)."""

CONNECT = (
    *KAFKA,
    f"org.apache.kafka:connect-file:{KAFKA_VERSION}",
    f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}",
)
"""The same with the connectors that Apache Kafka has."""

NEXT_VERSION = "4.4.0"
NEXT = (
    f"org.apache.kafka:kafka_2.13:{NEXT_VERSION}",
    f"org.apache.kafka:kafka-tools:{NEXT_VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)
NEXT_CLIENT = (f"org.apache.kafka:kafka-clients:{NEXT_VERSION}",)

COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def jars(name: str, artifacts: tuple[str, ...], *, alone: bool = False) -> list[Path]:
    """Return the jars of `artifacts` and of their run-time dependencies. Fetch missing jars.

    `name` is the directory in the cache. With `alone` the dependencies are omitted. If the jars are
    in the cache, neither Maven nor a network is needed.

    Raises:
        Missing: Maven is not installed, or cannot fetch the jars.
    """
    home = CACHE / "jars" / name
    wanted = "\n".join(artifacts)
    with only_one(f"jars-{name}"):
        if not _is_complete(home, wanted):
            _fetch(home, artifacts, alone)
            (home / "DONE").write_text(wanted, encoding="utf-8")
    return sorted(home.glob("*.jar"))


def kafka_jars() -> list[Path]:
    """Return the jars of Apache Kafka's server, clients and tools."""
    return jars(f"kafka-{KAFKA_VERSION}", KAFKA)


def next_jars() -> list[Path]:
    """Return the jars of the next version of Apache Kafka's server, clients and tools."""
    return jars(f"kafka-{NEXT_VERSION}", NEXT)


def next_client_jars() -> list[Path]:
    """Return the jar of the next version of Apache Kafka's client, without its dependencies."""
    return jars(f"kafka-clients-{NEXT_VERSION}", NEXT_CLIENT, alone=True)


def _is_complete(home: Path, wanted: str) -> bool:
    done = home / "DONE"
    return done.exists() and done.read_text(encoding="utf-8") == wanted


def _fetch(home: Path, artifacts: tuple[str, ...], alone: bool) -> None:
    maven = require("mvn")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    pom = home / "pom.xml"
    pom.write_text(_pom(artifacts, alone), encoding="utf-8")
    command = [maven, "-B", "-q", "-f", pom, COPY_GOAL, f"-DoutputDirectory={home}"]
    finished = subprocess.run(
        [*map(str, command), "-DincludeScope=runtime"], capture_output=True, text=True, check=False
    )
    if finished.returncode != 0:
        said = (finished.stdout + finished.stderr).strip().splitlines()[:5]
        raise absent(JAVA, f"Maven could not fetch {', '.join(artifacts)}: {' '.join(said)}")


def _pom(artifacts: tuple[str, ...], alone: bool) -> str:
    dependencies = "".join(_dependency(artifact, alone) for artifact in artifacts)
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0">'
        "<modelVersion>4.0.0</modelVersion><groupId>odradek</groupId>"
        "<artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )


def _dependency(coordinates: str, alone: bool) -> str:
    group, artifact, version = coordinates.split(":")
    anything = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    return (
        f"<dependency><groupId>{escape(group)}</groupId><artifactId>{escape(artifact)}</artifactId>"
        f"<version>{escape(version)}</version>"
        f"{f'<exclusions>{anything}</exclusions>' if alone else ''}</dependency>"
    )
