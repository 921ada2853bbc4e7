"""`python -m compat.logins`: records in `expected.json` what the clients say to Apache Kafka, and writes
docs/login-errors.md. With names of clients as arguments, only these are recorded, and the others stay as they are.

To run the logins against Odradek: `python -m compat --only 'login: *'`.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compat.clients import CLIENTS
from compat.driver import Driver
from compat.lab.apache_kafka import ApacheKafka
from compat.lab.dialogue import Unsupported
from compat.lab.toolchain import Missing
from compat.logins import document, table
from compat.logins.node import LoginNode
from compat.logins.play import Recorder, log_in


def main() -> int:
    """Record all logins of all clients, or of those that are named."""
    names = [each for each in table.CLIENTS if each in sys.argv[1:] or not sys.argv[1:]]
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as text:
        directory = Path(text)
        with LoginNode(ApacheKafka, directory) as node, ThreadPoolExecutor() as pool:
            for done in [pool.submit(_record, each, node, recorder) for each in names]:
                done.result()
    recorder.write(table.CLIENTS)
    document.write()
    return 0


def _record(name: str, node: LoginNode, recorder: Recorder) -> None:
    (client,) = (each for each in CLIENTS if each.name == name)
    driver = Driver(name, client.command(), node.broker.port, node.directory)
    try:
        for row in table.ROWS:
            try:
                recorder.add(row, name, log_in(driver, node, row))
            except (Unsupported, Missing) as reason:
                print(f"{name}: {row.name}: {reason}")
    finally:
        driver.close()


if __name__ == "__main__":
    sys.exit(main())
