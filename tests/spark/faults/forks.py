"""A server that forks the Python processes of local Spark sessions, which have imported everything.

A run has dozens of these processes: a daemon for each kind of work, and processes for the source of
a query and for its commits. Each imports Arrow, PySpark and this project, which takes most of the
processor time of a run, and Spark gives up waiting for some of them after ten seconds. So Spark
gets, as PYSPARK_PYTHON, a small program (`PROGRAM`) that passes its arguments, environment and
standard streams to the server. The server forks a process, which runs the module as Python would.

The program lives as long as the forked process. If Spark kills the program, the server kills the
forked process and those that it has forked (its process group). The file `PID.fork` in the server's
directory has the process id of the fork that the program with this PID has got.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import traceback
import warnings
from pathlib import Path
from typing import Self

import psutil
from tests.support.child import PYTHON, Child

LENGTH = struct.Struct("!I")
PROGRAM = """#!{python} -IS
import array, json, os, socket, struct, sys
if "-m" not in sys.argv:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
words = sys.argv[sys.argv.index("-m") + 1:]
said = json.dumps([words, dict(os.environ), os.getcwd(), os.getpid()]).encode()
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
server.sendmsg(
    [struct.pack("!I", len(said))],
    [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))],
)
server.sendall(said)
nothing = os.open(os.devnull, os.O_RDWR)
for each in (0, 1, 2):
    os.dup2(nothing, each)
code = server.recv(4)
os._exit(struct.unpack("!I", code)[0] if len(code) == 4 else 1)
"""
SOCKET = "socket"
PRELOADED = ("pyarrow.compute", "pyspark.worker", "tests.spark.faults.source")
"""What the forked processes need. None of these starts a thread that must survive a fork."""
START_SECONDS_MAX = 300.0


class ForkServer:
    """The server as a process, and its program."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.program = directory / "python"

    def __enter__(self) -> Self:
        self.directory.mkdir()
        path = self.directory / SOCKET
        self.program.write_text(PROGRAM.format(python=sys.executable, path=str(path)))
        self.program.chmod(0o755)
        environment = {
            **os.environ,
            "OPENBLAS_NUM_THREADS": "1",  # no threads before forks
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        command = [*PYTHON, "tests.spark.faults.forks", self.directory]
        self._process = Child(command, environment=environment)
        self._process.until(path.exists, START_SECONDS_MAX)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.close()

    def forks(self, programs: list[psutil.Process]) -> list[psutil.Process]:
        """Return the processes that were forked for these programs, and their descendants."""
        found = []
        for program in programs:
            with contextlib.suppress(FileNotFoundError, psutil.NoSuchProcess):
                fork = psutil.Process(int((self.directory / f"{program.pid}.fork").read_text()))
                found += [fork, *fork.children(recursive=True)]
        return found


class Server:
    """Forks a process for each connection, and ends it with its connection."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, socket.socket] = {}
        """By the id of the process."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._wakeup, self._wakes = socket.socketpair()
        for each in (self._wakeup, self._wakes):
            each.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        signal.set_wakeup_fd(self._wakes.fileno())

    def run(self) -> None:
        new = self._directory / "socket.new"
        self._listener.bind(str(new))
        self._listener.listen(64)
        new.rename(self._directory / SOCKET)
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._selector.register(self._wakeup, selectors.EVENT_READ, None)
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj is self._wakeup:
                        self._wakeup.recv(4096)
                    else:
                        self._kill(key.data)
                self._reap()
        finally:
            for each in list(self._connections):
                self._kill(each)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        head, streams, _, _ = socket.recv_fds(connection, LENGTH.size, 3)
        with connection.makefile("rb") as file:
            words, environment, directory, program = json.loads(file.read(*LENGTH.unpack(head)))
        pid = os.fork()
        if pid == 0:
            self._become(words, environment, directory, streams)
        for each in streams:
            os.close(each)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(pid, pid)  # the child does so, too
        self._connections[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ, pid)
        (self._directory / f"{program}.fork").write_text(str(pid))

    def _become(
        self, words: list[str], environment: dict[str, str], directory: str, streams: list[int]
    ) -> None:
        """Run a module as the main module, and end the process."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            os.setpgid(0, 0)
            self._selector.close()
            for each in (self._listener, *self._connections.values()):
                each.close()
            for number, each in enumerate(streams):
                os.dup2(each, number)
                os.close(each)
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(directory)
            sys.argv = ["", *words[1:]]
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:  # noqa: BLE001  (it goes where Python would write it)
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            os._exit(code & 0xFF)

    def _kill(self, pid: int) -> None:
        """Kill the process, whose program has ended, and its descendants."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        self._forget(pid)

    def _reap(self) -> None:
        """Tell programs that their processes have ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._connections:
                code = os.waitstatus_to_exitcode(status) & 0xFF
                with contextlib.suppress(OSError):
                    self._connections[pid].send(LENGTH.pack(code))
                self._forget(pid)

    def _forget(self, pid: int) -> None:
        connection = self._connections.pop(pid)
        self._selector.unregister(connection)
        connection.close()


def main(directory: str) -> None:
    for each in PRELOADED:
        importlib.import_module(each)
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
    gc.freeze()
    Server(Path(directory)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
