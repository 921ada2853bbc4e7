"""Runs the code of a task in a process of its own.

    worker                                          process of the task
    RemoteTask.poll  -- ("call", 7, "poll") -->     task.poll()
                     <-- ("up", 3, "offset") --     context.offset()
                     -- ("reply", 3, ...) -->
                     <-- ("done", 7, records) --

A task that eats memory or hangs can be killed; the others go on. If the process ends, all calls fail with
how it ended and the last lines that it printed. Messages are pickled. `stop` may run beside `poll`, all
other calls run one after the other.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from odradek.core.connect import errors
from odradek.core.connect.api import SinkTask, SourceTask, Task
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.records import SourceRecord
from odradek.model.topic_partition import TopicPartition

_LINES = 20
_KINDS = {each.__name__: each for each in (errors.RetriableError, errors.DataError)}
_END_SECONDS = 5.0


class _Remote(Exception):
    """The trace of an error in the other process."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Process:
    """The process of one task."""

    def __init__(self, made: type[Task], name: str, upcall: Callable[..., Any]) -> None:
        """Start it. `upcall` is called with the name of a method of the context, and its arguments."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        self._process = subprocess.Popen(  # noqa: S603 - this program
            command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE
        )
        theirs.close()
        self._connection = Connection(ours.detach())
        self._name = name
        self._upcall = upcall
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._ended: str | None = None
        self._words: deque[str] = deque(maxlen=_LINES)
        self._ups = ThreadPoolExecutor(2, thread_name_prefix=f"{name}-context")
        self._listener = threading.Thread(target=self._listen, name=f"{name}-words", daemon=True)
        self._reader = threading.Thread(target=self._read, name=f"{name}-answers", daemon=True)
        self._listener.start()
        self._reader.start()
        self._send(("start", sys.path, made.__module__, made.__qualname__))

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the task, and wait for the result.

        Raises:
            ConnectError: it failed, or the process has ended.
        """
        future: Future[Any] = Future()
        with self._lock:
            if self._ended is not None:
                raise ConnectError(self._ended)
            number = next(self._numbers)
            self._waiting[number] = future
        self._send(("call", number, method, arguments))
        return future.result()

    def _send(self, message: tuple[Any, ...]) -> None:
        with contextlib.suppress(OSError), self._lock:
            # If the process has ended, the reader notices, and fails the call.
            self._connection.send(message)

    def _read(self) -> None:
        try:
            while True:
                message = self._connection.recv()
                if message[0] == "up":
                    self._ups.submit(self._answer, *message[1:])
                    continue
                future = self._waiting.pop(message[1])
                if message[0] == "done":
                    future.set_result(message[2])
                else:
                    future.set_exception(_error(*message[2:]))
        except (EOFError, OSError):
            self._over()

    def _answer(self, number: int, method: str, arguments: tuple[Any, ...]) -> None:
        try:
            self._send(("reply", number, True, self._upcall(method, *arguments)))
        except Exception as error:  # noqa: BLE001 - it is the answer
            self._send(("reply", number, False, str(error)))

    def _over(self) -> None:
        code = self._process.wait()
        self._listener.join(_END_SECONDS)
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        last = "".join(self._words)
        text = f"the process of task {self._name} has ended ({how}). It printed last:\n{last}"
        with self._lock:
            self._ended = text
            waiting, self._waiting = list(self._waiting.values()), {}
        for each in waiting:
            each.set_exception(ConnectError(text))

    def _listen(self) -> None:
        """Pass on what the process prints on stderr, and keep the last lines."""
        assert self._process.stderr is not None, "it is a pipe"
        for line in self._process.stderr:
            text = line.decode("utf-8", "replace")
            self._words.append(text)
            sys.stderr.write(text)

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def close(self) -> None:
        """End the process, after its task has stopped."""
        self._send(("end",))
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_END_SECONDS)
        self._connection.close()
        self._listener.join(_END_SECONDS)
        self._ups.shutdown(wait=False)
        assert self._process.stderr is not None, "it is a pipe"
        self._process.stderr.close()


def _error(kind: str, text: str, trace: str) -> Exception:
    found = _KINDS.get(kind, ConnectError)(text)
    found.__cause__ = _Remote(trace)
    return found


class RemoteTask(Task):
    """A task in a process of its own."""

    def __init__(self, made: type[Task], name: str) -> None:
        self.made = made
        self._process = Process(made, name, self._up)
        self._reports: dict[int, Any] = {}
        self._numbers = itertools.count()

    def start(self, config: Mapping[str, str]) -> None:
        """See `Task`."""
        self._process.call("start", dict(config))

    def stop(self) -> None:
        """See `Task`."""
        self._process.call("stop")

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def end(self) -> None:
        """End the process, after the task has stopped."""
        self._process.close()

    def _up(self, method: str, *arguments: Any) -> Any:
        """Call the context for the task."""
        context: Any = self.context  # type: ignore[attr-defined]
        if method == "has_transaction":
            return context.transaction is not None
        if method == "has_reporter":
            return context.errant_record_reporter is not None
        if method == "report":
            record, text = arguments
            number = next(self._numbers)
            self._reports[number] = context.errant_record_reporter.report(
                record, ConnectError(text)
            )
            return number
        if method == "wait":
            return self._reports.pop(arguments[0]).result(120)
        return getattr(context, method)(*arguments)


class RemoteSourceTask(RemoteTask, SourceTask):
    """A source task in a process of its own."""

    def poll(self) -> Iterable[SourceRecord] | None:
        """See `SourceTask`."""
        found, marks = self._process.call("poll")
        transaction = self.context.transaction
        for index, is_commit in marks:
            assert transaction is not None, "only tasks with transactions mark records"
            record = None if index is None else found[index]
            if is_commit:
                transaction.commit_transaction(record)
            else:
                transaction.abort_transaction(record)
        listed: Iterable[SourceRecord] | None = found
        return listed

    def commit(self) -> None:
        """See `SourceTask`."""
        self._process.call("commit")

    def commit_records(self, told: Sequence[tuple[SourceRecord, int | None]]) -> None:
        """Call `commit_record` for several records."""
        self._process.call("commit_records", told)

    @property
    def hears_of_records(self) -> bool:
        """Whether the task wants to know which records are written."""
        made: Any = self.made
        return made.commit_record is not SourceTask.commit_record


class RemoteSinkTask(RemoteTask, SinkTask):
    """A sink task in a process of its own."""

    def open(self, partitions: Iterable[TopicPartition]) -> None:
        """See `SinkTask`."""
        self._process.call("open", list(partitions))

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        """See `SinkTask`."""
        self._process.call("close", list(partitions))

    def put(self, records: Sequence[Any]) -> None:
        """See `SinkTask`."""
        self._process.call("put", list(records))

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """See `SinkTask`."""
        found: Mapping[TopicPartition, int] = self._process.call("pre_commit", dict(offsets))
        return found


# -- in the process ---------------------------------------------------------------------------


class _Written:
    def __init__(self, child: _Child, number: int) -> None:
        self._child = child
        self._number = number

    def result(self, timeout: float | None = None) -> None:
        """See `Written`."""
        self._child.up("wait", self._number)


class _Reporter:
    def __init__(self, child: _Child) -> None:
        self._child = child

    def report(self, record: Any, error: BaseException) -> _Written:
        """See `ErrantRecordReporter`."""
        return _Written(self._child, self._child.up("report", record, str(error)))


class _Marks:
    """What the task wants its transactions to end with. The worker hears of it with the records."""

    def __init__(self) -> None:
        self._asked: list[tuple[SourceRecord | None, bool]] = []

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """See `TransactionContext`."""
        self._asked.append((record, True))

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """See `TransactionContext`."""
        self._asked.append((record, False))

    def take(self, records: Sequence[SourceRecord]) -> list[tuple[int | None, bool]]:
        """Return what concerns these records. The rest concerns later ones."""
        places = {id(record): index for index, record in enumerate(records)}
        asked, self._asked = self._asked, []
        found: list[tuple[int | None, bool]] = []
        for record, is_commit in asked:
            if record is None:
                found.append((None, is_commit))
            elif id(record) in places:
                found.append((places[id(record)], is_commit))
            else:
                self._asked.append((record, is_commit))
        return found


class _Context:
    """The context of the task: each method is called in the worker."""

    def __init__(self, child: _Child) -> None:
        self._child = child
        self._marks: _Marks | None = None

    @property
    def transaction(self) -> _Marks | None:
        """See `SourceTaskContext`."""
        if self._marks is None and self._child.up("has_transaction"):
            self._marks = _Marks()
        return self._marks

    def take_marks(self, records: Sequence[SourceRecord]) -> list[tuple[int | None, bool]]:
        """Return the ends of transactions that the task has asked for, by the index of the record."""
        return [] if self._marks is None else self._marks.take(records)

    @property
    def errant_record_reporter(self) -> _Reporter | None:
        """See `SinkTaskContext`."""
        return _Reporter(self._child) if self._child.up("has_reporter") else None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: self._child.up(name, *map(_plain, arguments))


def _plain(value: Any) -> Any:
    """Return a collection that can be sent: iterators cannot."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return list(value)
    return value


class _Child:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._replies: dict[int, Future[Any]] = {}
        self._calls = ThreadPoolExecutor(1)
        self._task: Any = None
        self._context = _Context(self)

    def serve(self) -> None:
        """Serve calls until the worker says that this is the end, or is gone."""
        _, path, module, name = self._connection.recv()
        sys.path[:] = path
        with contextlib.suppress(EOFError, OSError):
            while True:
                message = self._connection.recv()
                if message[0] == "end":
                    break
                if message[0] == "reply":
                    _, number, is_good, value = message
                    future = self._replies.pop(number)
                    if is_good:
                        future.set_result(value)
                    else:
                        future.set_exception(ConnectError(value))
                    continue
                _, number, method, arguments = message
                if method == "start":
                    self._calls.submit(self._start, number, module, name, arguments)
                elif method == "stop":
                    threading.Thread(target=self._call, args=(number, method, arguments)).start()
                else:
                    self._calls.submit(self._call, number, method, arguments)
        os._exit(0)

    def _start(self, number: int, module: str, name: str, arguments: tuple[Any, ...]) -> None:
        def start() -> None:
            made: Any = importlib.import_module(module)
            for part in name.split("."):
                made = getattr(made, part)
            self._task = made()
            self._task.initialize(self._context)
            self._task.start(*arguments)

        self._run(number, start)

    def _call(self, number: int, method: str, arguments: tuple[Any, ...]) -> None:
        if method == "commit_records":
            self._run(number, lambda: _commit_records(self._task, *arguments))
        elif method == "poll":
            self._run(number, self._poll)
        else:
            self._run(number, lambda: getattr(self._task, method)(*arguments))

    def _poll(self) -> Any:
        found = self._task.poll()
        if found is None:
            return None, []
        records = list(found)
        return records, self._context.take_marks(records)

    def _run(self, number: int, function: Callable[[], Any]) -> None:
        try:
            self._send(("done", number, function()))
        except BaseException as error:  # noqa: BLE001 - it is the answer
            names = [each.__name__ for each in type(error).__mro__]
            kind = next((each for each in names if each in _KINDS), "")
            trace = "".join(traceback.format_exception(error))
            self._send(("failed", number, kind, str(error), trace))

    def up(self, method: str, *arguments: Any) -> Any:
        """Call a method of the context, and return its result."""
        future: Future[Any] = Future()
        number = next(self._numbers)
        self._replies[number] = future
        self._send(("up", number, method, arguments))
        return future.result()

    def _send(self, message: tuple[Any, ...]) -> None:
        with self._lock:
            self._connection.send(message)


def _commit_records(task: SourceTask, told: Sequence[tuple[SourceRecord, int | None]]) -> None:
    for record, offset in told:
        task.commit_record(record, offset)


if __name__ == "__main__":
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C stops the worker, which then stops the tasks
    _Child(Connection(int(sys.argv[1]))).serve()
