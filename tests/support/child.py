"""A process that a test starts, and that ends with the test.

What the process prints goes to a file, so that no pipe is ever full, and a failure shows the last lines.
If the process `talks`, its standard output is a pipe to the test, and only its standard error goes to the
file. If it `hears`, its input is a pipe from the test.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

PATIENCE_SECONDS = 60.0
"""How long a process may take to print something or to end, if the test says nothing else."""
POLL_SECONDS = 0.01
LAST_WORDS_MAX = 2_000

PYTHON = (sys.executable, "-m")
ODRADEK = (*PYTHON, "odradek")
"""The command `odradek` of this environment."""


class Child:
    """A running process. At the end of a `with` statement it is killed if it still runs.

    With `stops` it is stopped there with SIGTERM, and then must exit with code 0.

    `output` is the file for what it prints, which is appended to; by default a temporary file.
    `environment` replaces that of the test. With `own_session`, Ctrl-C does not reach the process.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        output: Path | None = None,
        talks: bool = False,
        hears: bool = False,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        own_session: bool = False,
        stops: bool = False,
    ) -> None:
        self.command = [str(word) for word in command]
        self._file: IO[bytes] = (
            tempfile.TemporaryFile() if output is None else output.open("a+b")  # noqa: SIM115
        )
        self._path = output
        self._stops = stops
        self._seen = self._file.seek(0, os.SEEK_END)
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE if hears else subprocess.DEVNULL,
            stdout=subprocess.PIPE if talks else self._file,
            stderr=self._file,
            cwd=directory,
            env=environment,
            start_new_session=own_session,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        try:
            if self._stops and self.runs:
                code = self.terminate()
                assert failed or code == 0, f"{self._name} ended with {code}: {self.last_words}"
        finally:
            self.close()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    @property
    def output(self) -> str:
        """What the file has now, the output of earlier processes included.

        After `close` a temporary file has nothing.
        """
        if self._file.closed:
            return "" if self._path is None else self._path.read_text(errors="replace")
        end = os.fstat(self._file.fileno()).st_size
        return os.pread(self._file.fileno(), end, 0).decode(errors="replace")

    @property
    def last_words(self) -> str:
        """The end of the output, for the message of a failure."""
        return self.output.strip()[-LAST_WORDS_MAX:] or "it said nothing"

    def check(self) -> None:
        """Fail if the process has ended."""
        assert self.runs, f"{self._name} ended with {self._process.returncode}: {self.last_words}"

    def wait_for(self, text: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait until a line with this text is printed to the file.

        Return the lines since the last call, up to this one. Fail if the process ends without it.
        """
        deadline = time.monotonic() + seconds
        while True:
            has_ended = not self.runs  # then the output is complete
            printed = self._since(self._seen)
            found = printed.find(text.encode())
            end = printed.find(b"\n", found) + 1 if found >= 0 else 0
            if end:
                self._seen += end
                return printed[:end].decode(errors="replace")
            assert not has_ended, f"{self._name} ended before {text!r}: {self.last_words}"
            assert time.monotonic() < deadline, f"{self._name}: no {text!r}: {self.last_words}"
            time.sleep(POLL_SECONDS)

    def until(self, holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until a condition holds. Fail if the process ends before."""
        deadline = time.monotonic() + seconds
        while not holds():
            self.check()
            assert time.monotonic() < deadline, f"{self._name}: {self.last_words}"
            time.sleep(POLL_SECONDS)

    def _since(self, position: int) -> bytes:
        size = os.fstat(self._file.fileno()).st_size - position
        return os.pread(self._file.fileno(), size, position)

    # -- its pipes ----------------------------------------------------------------------------

    @property
    def stdin(self) -> IO[bytes]:
        """The input of a process that hears."""
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        """The standard output of a process that talks."""
        assert self._process.stdout is not None
        return self._process.stdout

    def tell(self, line: str) -> None:
        """Write a line to the process."""
        self.stdin.write(line.encode() + b"\n")
        self.stdin.flush()

    def ask(self, line: str) -> str:
        """Write a line to the process, and return the next line of its standard output."""
        self.tell(line)
        return self.line()

    def line(self) -> str:
        """Return the next line of the standard output, without its end. Fail if there is none."""
        line = self.stdout.readline()
        assert line.endswith(b"\n"), f"{self._name} ended: {self._ended_with()}"
        return line.decode().rstrip("\r\n")

    def lines(self) -> Iterator[str]:
        """Yield the lines of the standard output up to its end."""
        for line in self.stdout:
            yield line.decode().rstrip("\r\n")

    def _ended_with(self) -> str:
        self._process.wait(PATIENCE_SECONDS)
        return f"{self._process.returncode}: {self.last_words}"

    # -- its end ------------------------------------------------------------------------------

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Wait until the process ends, and return its exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self._name} does not end: {self.last_words}") from None

    def finish(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Close the input of a process that hears; return its exit code."""
        self.stdin.close()
        return self.wait(seconds)

    def terminate(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Send SIGTERM, wait until the process ends, and return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        """Kill the process if it runs."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Kill the process if it runs, and close its pipes and its file. May be repeated."""
        self.kill()
        for each in (self._process.stdin, self._process.stdout):
            if each is not None:
                with suppress(OSError):  # what it has not read is lost
                    each.close()
        self._file.close()

    @property
    def _name(self) -> str:
        return " ".join(Path(word).name for word in self.command[:4])
