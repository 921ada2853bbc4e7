"""The cost of TLS, compared with Apache Kafka: `python -m bench.tls`.

Both brokers have a listener with TLS beside their usual one. Each round produces 0.5 GB and reads 1 GB
over TLS, and then the same without TLS. The figures are the broker's processor seconds per
gigabyte of values. Both ends use TLS 1.3 with AES-256-GCM, the first choice of Java and OpenSSL. The key
of the brokers is one of `odradek secure`; each part of a round has a few handshakes, so it does not
matter.

The result has the version of OpenSSL, with which Odradek encrypts (Java has its own code), and says
whether the kernel could encrypt (KTLS). Odradek does not use this; see docs/benchmarks.md.
"""

from __future__ import annotations

import socket
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity
from bench.machine import touch_memory
from bench.measures.consume import PROPERTIES as CONSUMER_PROPERTIES
from bench.measures.producing import PROPERTIES as PRODUCER_PROPERTIES
from bench.programs import compare, parse_options, run
from odradek.cli.certificates import Authority

LISTENER = "SSL"
SIZE = 1000
PRODUCED_BYTES, FETCHED_BYTES = 500_000_000, 1_000_000_000
LIMIT = 0.7
WARM_UPS = 2
TCP_ULP = 31
"""The number of this socket option in Linux. Python 3.11 has no name for it."""

PRODUCE = Quantity("produce over TLS, CPU", "s/GB", LIMIT)
PRODUCE_SPEED = Quantity(
    "produce over TLS, throughput", "MB/s", higher_is_better=True, primary=False
)
FETCH = Quantity("fetch over TLS, CPU", "s/GB", LIMIT)
FETCH_SPEED = Quantity("fetch over TLS, throughput", "MB/s", higher_is_better=True, primary=False)
PLAIN_PRODUCE = Quantity("produce without TLS, CPU", "s/GB", primary=False)
PLAIN_FETCH = Quantity("fetch without TLS, CPU", "s/GB", primary=False)
QUANTITIES = [PRODUCE, PRODUCE_SPEED, FETCH, FETCH_SPEED, PLAIN_PRODUCE, PLAIN_FETCH]


class Part:
    """One way to the broker."""

    def __init__(
        self,
        environment: Environment,
        contender: Contender,
        bootstrap: str,
        security: Mapping[str, str],
    ) -> None:
        self._environment = environment
        self._contender = contender
        self._bootstrap = bootstrap
        self._security = security

    def measure(self) -> tuple[dict[str, float], dict[str, float]]:
        """Produce and read; return seconds per gigabyte and MB/s of both."""
        environment, contender = self._environment, self._contender
        settings = {"retention.bytes": "-1"}
        with environment.topic(contender, 1, settings) as topic:
            touch_memory(PRODUCED_BYTES * 5 // 4)
            made = self._one("produce", topic, PRODUCED_BYTES, PRODUCER_PROPERTIES, size=SIZE)
            # The same records twice: what is read is in the page cache.
            parts = [
                self._one("consume", topic, PRODUCED_BYTES, CONSUMER_PROPERTIES)
                for _ in range(FETCHED_BYTES // PRODUCED_BYTES)
            ]
        read = {name: sum(each[name] for each in parts) / len(parts) for name in parts[0]}
        return made, read

    def _one(
        self, verb: str, topic: str, amount: int, properties: Mapping[str, str], **more: int
    ) -> dict[str, float]:
        environment = self._environment
        meter = CpuMeter(self._contender.broker)
        done = environment.load(
            self._contender,
            verb,
            topic=topic,
            records=environment.scaled(amount) // SIZE,
            bootstrap=self._bootstrap,
            properties={**properties, **self._security},
            **more,
        )
        spent = meter.seconds()
        return {
            "cpu": spent / done["bytes"] * 1e9,
            "speed": done["bytes"] / done["seconds"] / 1e6,
        }


def one_round(
    environment: Environment, contender: Contender, security: Mapping[str, str]
) -> Mapping[str, float]:
    """Return the values of `QUANTITIES`."""
    (listener,) = contender.broker.listeners
    encrypted = Part(environment, contender, listener.removeprefix(f"{LISTENER}://"), security)
    made, read = encrypted.measure()
    plain_made, plain_read = Part(environment, contender, contender.broker.bootstrap, {}).measure()
    return {
        PRODUCE.name: made["cpu"],
        PRODUCE_SPEED.name: made["speed"],
        FETCH.name: read["cpu"],
        FETCH_SPEED.name: read["speed"],
        PLAIN_PRODUCE.name: plain_made["cpu"],
        PLAIN_FETCH.name: plain_read["cpu"],
    }


def kernel_encrypts() -> bool:
    """Return whether the kernel has TLS (the module `tls`)."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as connected,
    ):
        try:
            connected.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
        except OSError:
            return False
        return True


def key_settings(directory: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Make a key, and return the settings of the brokers and of the client."""
    authority = Authority.create(directory, "bench", days=2)
    key = directory / "broker.pem"
    key.write_bytes(authority.issue("broker", ["127.0.0.1", "localhost"], days=2))
    of_brokers = {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LISTENER}:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key),
    }
    of_client = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
    }
    return of_brokers, of_client


def measure(environment: Environment, security: Mapping[str, str]) -> list[Figure]:
    """Run the rounds."""
    return environment.play(
        "tls", QUANTITIES, lambda each: one_round(environment, each, security), warm_ups=WARM_UPS
    )


def main() -> int:
    """Run the experiment, and return the exit code (`programs`)."""
    options = parse_options("tls", __doc__, rounds=5)
    with tempfile.TemporaryDirectory(prefix="odradek-bench-tls-") as directory:
        of_brokers, of_client = key_settings(Path(directory))
        return compare(
            lambda environment: measure(environment, of_client),
            options,
            {"openssl": ssl.OPENSSL_VERSION, "kernel_encrypts": kernel_encrypts()},
            settings=of_brokers,
            listeners=(LISTENER,),
        )


if __name__ == "__main__":
    run(main)
