"""Communicates with a program by lines of JSON.

The program reads commands from its standard input, and writes responses to its standard output. The
response to a command is an object with exactly one of three keys:

    {"ok": {...}}                            the command is done; the object has the results
    {"error": {"name": N, "message": M}}     the command failed; N is Kafka's name of the error
    {"unsupported": "why"}                   the client does not support the command

The standard error of the program goes to a log file.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class DialogueError(Exception):
    """The program ended, did not respond in time, or violated the protocol."""


class Refused(Exception):
    """The command failed with an error of the client. `name` is Kafka's name of the error."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


class Unsupported(Exception):
    """The client of the program does not support the command. The text says what is missing."""


class Dialogue:
    """A running program. The constructor starts the program, and `close` ends it."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = [str(word) for word in command]
        self.log = log
        self._answers: queue.Queue[str | None] = queue.Queue()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=directory,
                env={**os.environ, **(environment or {})},
                text=True,
                encoding="utf-8",
            )
        self._reader = threading.Thread(target=self._read, name=f"reads {log.stem}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id of the program."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether the program runs."""
        return self._process.poll() is None

    def ask(self, verb: str, timeout: float = 60.0, **arguments: Any) -> dict[str, Any]:
        """Send a command, and return the result.

        Raises:
            Refused: the command failed.
            Unsupported: the client does not support the command.
            DialogueError: the program ended, or sent no response within `timeout` seconds. After a
                timeout the program is killed. Otherwise a late response could be taken for the
                response to the next command.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": verb, **arguments}) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise DialogueError(f"{self._name()} is gone: {self._last_words()}") from error
        try:
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            self.close(patience=0)
            raise DialogueError(f"{self._name()}: no answer to `{verb}` in {timeout:g} s") from None
        if line is None:
            raise DialogueError(f"{self._name()} ended during `{verb}`: {self._last_words()}")
        return self._understand(line)

    def close(self, patience: float = 10.0) -> None:
        """Close the program's input. Kill the program if it does not end in `patience` seconds."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass  # the program has already ended
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def kill(self) -> None:
        """Kill the program."""
        self._process.kill()
        self.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._answers.put(line)
        self._answers.put(None)

    def _understand(self, line: str) -> dict[str, Any]:
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"]["name"], answer["error"]["message"])
        if "unsupported" in answer:
            raise Unsupported(answer["unsupported"])
        if "ok" not in answer:
            raise DialogueError(f"{self._name()} answered {line[:200]!r}")
        result: dict[str, Any] = answer["ok"]
        return result

    def _name(self) -> str:
        return self.log.stem

    def _last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return " | ".join(lines[-3:])[-600:] or "it said nothing"
