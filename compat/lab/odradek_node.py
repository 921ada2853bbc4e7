"""Runs an Odradek node as a process, with the command `odradek serve`."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import odradek
from compat.lab.broker import Broker, BrokerFailed

METRICS_TIMEOUT_SECONDS = 60.0


class OdradekNode(Broker):
    """`odradek serve --data DIR --port N`, with settings as overrides."""

    name = "Odradek"
    start_seconds_max = 120.0

    def prepare(self) -> None:
        """Create the directory. The node formats its data directory itself."""
        self.directory.mkdir(parents=True, exist_ok=True)

    @property
    def program(self) -> Path:
        """The installed command `odradek`, in the directory of the running Python interpreter."""
        return Path(sys.executable).with_name("odradek")

    def command(self) -> Sequence[str]:
        """Return `program` with its arguments.

        Raises:
            BrokerFailed: the program is not installed.
        """
        if not self.program.exists():
            raise BrokerFailed(f"no `odradek` command beside {Path(sys.executable).name}")
        words = [str(self.program), "serve", "--data", str(self.data)]
        if self.listeners:
            listeners = ",".join((f"PLAINTEXT://127.0.0.1:{self.port}", *self.listeners))
            words += ["--override", f"listeners={listeners}"]
        else:
            words += ["--host", "127.0.0.1", "--port", str(self.port)]
        for key, value in self.settings.items():
            words += ["--override", f"{key}={value}"]
        return words

    def described(self) -> dict[str, object]:
        """Return the versions of Odradek and Python, and the settings."""
        return {
            "name": self.name,
            "version": odradek.__version__,
            "python": sys.version.split()[0],
            "settings": self.settings,
        }


def metric(port: int, name: str) -> float | None:
    """Return a metric without labels from the endpoint on `port`; None if it does not exist."""
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url, timeout=METRICS_TIMEOUT_SECONDS) as response:
        for line in response.read().decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
    return None
