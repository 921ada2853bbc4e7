"""A worker of Spark for `test_streams_workers`, without Spark: runs the tasks that its standard input names."""

from __future__ import annotations

import pickle
import sys

from odradek.streams.on_spark import application


def main() -> None:
    """Answer each request with the result, or with the text of the error."""
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = application.run(*request)
        except Exception as error:  # noqa: BLE001 - the test decides
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
