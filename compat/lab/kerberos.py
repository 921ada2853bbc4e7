"""A key distribution centre (KDC) of Kerberos: Apache Kerby's SimpleKdcServer, from Maven.

Programs find it by the file `krb5.conf`: the Kerberos library of the system by the environment variable
KRB5_CONFIG, Java by the system property java.security.krb5.conf.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from compat.lab import java
from compat.lab.apache_kafka import ApacheKafka
from compat.lab.broker import Broker
from compat.lab.maven import jars
from compat.lab.toolchain import Missing, free_port, require

REALM = "EXAMPLE.COM"
SERVICE = "kafka/localhost"
LIFETIME_SECONDS = 3600
KERBY = ("org.apache.kerby:kerb-simplekdc:2.1.0", "org.slf4j:slf4j-nop:1.7.36")
_PROGRAM = Path(__file__).with_name("kdc") / "Kdc.java"
_CONFIGURATION = """\
[libdefaults]
default_realm = {realm}
dns_lookup_realm = false
dns_lookup_kdc = false
udp_preference_limit = 1
[realms]
{realm} = {{
  kdc = 127.0.0.1:{port}
}}
"""


def require_library() -> None:
    """Check that the package gssapi is installed.

    Raises:
        Missing: it is not.
    """
    if find_spec("gssapi") is None:
        raise Missing("no package `gssapi` here (pip install '.[gssapi]'; it needs libkrb5-dev)")


class Kdc:
    """A running KDC. Its directory has the key tables and ticket caches that `kdc/Kdc.java` lists."""

    def __init__(self, directory: Path, principals: Sequence[str]) -> None:
        """Start it.

        Raises:
            Missing: there is no Java, or Maven cannot fetch the jars.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.configuration = directory / "client-krb5.conf"
        port = free_port()
        self.configuration.write_text(_CONFIGURATION.format(realm=REALM, port=port))
        require("javac")
        options = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        words = java.command(str(_PROGRAM), jars("kerby", KERBY), options=options)
        arguments = [str(directory), str(port), REALM, str(LIFETIME_SECONDS)]
        self._process = subprocess.Popen(
            [*words, *arguments, *principals],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            self.close()
            raise RuntimeError("the KDC has not started")

    def keys(self, principal: str) -> Path:
        """Return the file with the keys of a principal."""
        return self.directory / f"{principal.replace('/', '_')}.keytab"

    def login_module(self, principal: str) -> str:
        """Return the login module of a service or a client with keys, for sasl.jaas.config."""
        return (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{self.keys(principal)}" principal="{principal}@{REALM}";'
        )

    def serve(self, broker: Broker) -> None:
        """Let a broker that is not started yet find this KDC."""
        broker.variables_added["KRB5_CONFIG"] = str(self.configuration)
        if isinstance(broker, ApacheKafka):
            option = f"-Djava.security.krb5.conf={self.configuration}"
            broker.jvm_options = (*broker.jvm_options, option)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop it."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
