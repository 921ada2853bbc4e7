"""Lets workers on one machine run the tasks of each other.

Spark gives a task to any worker, and the state of the task is in the memory of one. So each worker
listens on the loopback interface. Whoever connects must know the secret of the run.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from multiprocessing.connection import Client, Connection, Listener

from odradek.core.streams.model.errors import StreamsError
from odradek.streams.on_spark.tasks import Result
from odradek.streams.process.task_states import TaskId

LOOPBACK = "127.0.0.1"
RunTask = Callable[[TaskId, Mapping[str, int], Mapping[TaskId, str]], Result]


class ServingError(RuntimeError):
    """A task has failed in another worker."""


class Server:
    """Runs tasks for other workers. `name` is its address: machine, port, and an id."""

    def __init__(self, secret: bytes, run_task: RunTask) -> None:
        self._run_task = run_task
        self._is_closed = threading.Event()
        self._listener = Listener((LOOPBACK, 0), authkey=secret)
        _, port = self._listener.address
        self.name = f"{socket.gethostname()}/{port}/{uuid.uuid4().hex}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        self._is_closed.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except multiprocessing.AuthenticationError:
                continue
            except (OSError, EOFError):
                if self._is_closed.is_set():
                    return
                continue  # the other process has gone
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        with connection, contextlib.suppress(OSError, EOFError):
            name, task_id, ends, owners = connection.recv()
            if name != self.name:  # an earlier process had the port
                return
            try:
                connection.send(self._run_task(task_id, ends, owners))
            except StreamsError as error:
                connection.send(("streams", str(error)))
            except Exception as error:  # noqa: BLE001  (the other worker raises it)
                connection.send(("other", f"{type(error).__name__}: {error}"))


def ask(
    owner: str,
    secret: bytes,
    task_id: TaskId,
    ends: Mapping[str, int],
    owners: Mapping[TaskId, str],
) -> Result | None:
    """Let the owner run a task. Return None if it is on another machine, or gone.

    Raises:
        StreamsError: a record cannot be processed, or the group has members.
        ServingError: the owner has had another error.
    """
    machine, port, _ = owner.split("/")
    if machine != socket.gethostname():
        return None
    try:
        with Client((LOOPBACK, int(port)), authkey=secret) as connection:
            connection.send((owner, task_id, dict(ends), dict(owners)))
            answer = connection.recv()
    except (OSError, EOFError, multiprocessing.AuthenticationError):
        return None
    if isinstance(answer, Result):
        return answer
    kind, text = answer
    raise (StreamsError if kind == "streams" else ServingError)(text)
