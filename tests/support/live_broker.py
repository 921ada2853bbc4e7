"""The broker that the tests of the client and the command line talk to.

It is a node of our own as a process, started as users start it, unless ODRADEK_TEST_BOOTSTRAP
names another broker: so the same tests can be run against Apache Kafka.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "ODRADEK_TEST_BOOTSTRAP"
STOP_SECONDS_MAX = 30


@contextmanager
def live_broker() -> Iterator[str]:
    """The address of a running broker; it is stopped, and its data removed, afterwards."""
    named = os.environ.get(VARIABLE)
    if named:
        yield named
        return
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "odradek", "serve", "--host", "127.0.0.1", "--port", "0"]
        with subprocess.Popen([*command, "--data", data], stderr=subprocess.PIPE, text=True) as node:
            try:
                yield f"127.0.0.1:{_port(node)}"
            finally:
                node.send_signal(signal.SIGTERM)
                _, said = node.communicate(timeout=STOP_SECONDS_MAX)
        assert node.returncode == 0, said


def _port(node: subprocess.Popen[str]) -> int:
    """The port that the banner tells."""
    assert node.stderr is not None
    said = ""
    for line in node.stderr:
        said += line
        found = re.search(r"listening\s+\S*:(\d+)", line)
        if found:
            return int(found[1])
    raise RuntimeError(f"the node did not start:\n{said}")
