"""Runs a pipeline: broker, Spark, the pipeline in a thread, and a clean end.

The main thread waits, so that SIGINT and SIGTERM are handled at once, and not only after a call to
the JVM. All calls to Spark are made in one other thread, because a session is active only in the
thread that created it; except the calls that end the session.

After the first signal no new query is started. Each query may complete its micro-batch within
`RunOptions.grace_s`, so that no transaction stays open. Then queries, Spark and the broker end, in
this order. A second signal ends the wait. Whenever the process ends, even by `kill -9`, the next run
continues from the checkpoints.

If a signal is sent to the whole process group, Spark and its workers get it too. Then micro-batches
end at once, and a transaction may stay open until the next run, or until it times out.
"""

from __future__ import annotations

import json
import os
import signal
import socketserver
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import accumulators
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

import odradek.spark
from odradek.client.errors import ClientError
from odradek.client.security import parse_security
from odradek.pipelines import broker, runs, settings
from odradek.pipelines.broker import BrokerNotStartedError, RunningBroker
from odradek.pipelines.catalogue import Pipeline
from odradek.pipelines.listener import ProgressListener, checkpoint_and_groups
from odradek.pipelines.places import Line, PipelineError, Places, StoppedError, show
from odradek.pipelines.reports import Report
from odradek.pipelines.runs import AlreadyRunningError, QueryState, Run, RunFile
from odradek.pipelines.view import View
from odradek.spark.java import NoJavaError
from odradek.spark.sentences import sentence

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
GRACE_S = 30.0
REPORTED_BY_THE_RUNNER = (
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
    "org.apache.spark.util.Utils",
)
"""Loggers that write each failure of a query with long stack traces, once for each of its layers."""
POLL_S = 0.1
END_TIMEOUT_S = 30.0
"""How long the pipeline's own code may run after Spark has ended."""
FRAMES_SHOWN = 2
"""Of an error in the pipeline's code: the last frames, each with its line of code."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run that all pipelines have.

    Without `servers` the run starts a broker, with its data in `output`. `master` defaults to
    `local[*]`. `checkpoints` defaults to a directory in `output`.
    """

    output: Path
    servers: str | None = None
    client_settings: Mapping[str, str] = field(default_factory=dict)
    master: str | None = None
    checkpoints: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    grace_s: float = GRACE_S
    as_json: bool = False
    verbose: bool = False
    """Whether the log of Spark is shown. What fails a pipeline is shown in any case."""


class OutputExistsError(RuntimeError):
    """An example needs a new output directory."""


class SparkNotStartedError(RuntimeError):
    """The session cannot be created. Spark has written the reason to its log."""


def execute(pipeline: Pipeline, arguments: Any, options: RunOptions) -> int:
    """Run a pipeline. Return 0 if it ends and reconciles, 1 if it fails, 130 after a signal.

    Raises:
        OutputExistsError: the output exists, and the pipeline is an example.
        AlreadyRunningError: another process runs the pipeline with this output.
    """
    existed = options.output.exists()
    if existed and not _continues(pipeline, arguments):
        raise OutputExistsError(
            f"{options.output} exists. An example sends its own data, so it needs a new directory: "
            "remove this one, or choose another --output"
        )
    execution = _Execution(pipeline, arguments, options, is_continued=existed)
    with _signals(execution):
        return execution.run()


def _continues(pipeline: Pipeline, arguments: Any) -> bool:
    """Return whether a run with the same output directory continues this one."""
    if not pipeline.is_example:
        return True
    return pipeline.continues is not None and pipeline.continues(arguments)


@contextmanager
def _signals(execution: _Execution) -> Iterator[None]:
    """Stop the execution on SIGINT and SIGTERM."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        execution.stop()

    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Execution:
    """One run of a pipeline."""

    def __init__(
        self, pipeline: Pipeline, arguments: Any, options: RunOptions, *, is_continued: bool
    ) -> None:
        self._pipeline = pipeline
        self._arguments = arguments
        self._options = options
        self._is_continued = is_continued
        self._console = Console(stderr=options.as_json)
        is_live = self._console.is_terminal and not (options.as_json or options.verbose)
        self._view = View(self._console) if is_live else None
        self._stopping = threading.Event()
        self._must_hurry = threading.Event()
        self._spark: SparkSession | None = None
        self._code = EXIT_FAILED
        self._error: str | None = None
        self._lines: list[Line] | None = None
        """What is reconciled, to be shown at the end."""
        self._lock = threading.Lock()
        """Held by the thread that changes or writes `_state`."""
        output = str(options.output.resolve())
        self._state = Run(
            name=pipeline.name,
            output=output,
            process_id=os.getpid(),
            started_at_ms=time.time_ns() // 1_000_000,
            master=options.master or "local[*]",
            servers=options.servers,
            checkpoints=options.checkpoints or f"{output}/checkpoints",
        )
        self._file = RunFile(self._state)

    def stop(self) -> None:
        """End the run. The second call ends it without a wait for micro-batches."""
        if self._stopping.is_set():
            self._must_hurry.set()
        self._stopping.set()

    def run(self) -> int:
        """Run the pipeline, and return the exit code."""
        if self._view is None:
            code = self._run_all()
        else:
            with self._view.shown():
                code = self._run_all()
        self._show_end()
        return code

    def _run_all(self) -> int:
        running: RunningBroker | None = None
        try:
            running = self._broker()
            worker = threading.Thread(target=self._work, args=(running,), name="pipeline")
            worker.daemon = True  # code of the pipeline that does not end cannot stop the exit
            worker.start()
            while worker.is_alive() and not self._stopping.is_set():
                worker.join(POLL_S)
            if worker.is_alive():
                self._end(worker)
        except BrokerNotStartedError as error:
            self._fail(str(error))
        finally:
            if running is not None:
                running.stop()
            self._file.close(keep=self._state.state == runs.FAILED)
        return EXIT_INTERRUPTED if self._stopping.is_set() else self._code

    def _broker(self) -> RunningBroker:
        options = self._options
        self._phase("Connecting to the broker" if options.servers else "Starting the broker")
        if options.servers is not None:
            broker.check(options.servers, parse_security(options.client_settings))
            return RunningBroker(options.servers)
        running = broker.start(options.output / "broker")
        with self._lock:
            self._state.connected_to(running.servers)
            self._file.save(self._state)
        return running

    # -- in the thread of Spark -------------------------------------------------------------

    def _work(self, running: RunningBroker) -> None:
        """Run the pipeline, and set the exit code."""
        try:
            self._run(running)
        except StoppedError:
            pass
        except PySparkException as error:
            self._fail(sentence(str(error)))
        except (NoJavaError, ClientError, SparkNotStartedError, PipelineError) as error:
            self._fail(str(error))
        except (Py4JNetworkError, ConnectionError) as error:
            self._fail(_end_of_spark(error))
        except SystemExit as ended:
            self._fail(f"the pipeline called sys.exit({ended.code!r})")
        except Exception as error:  # noqa: BLE001  (of the pipeline's code)
            self._fail(_trace(error))
        finally:
            if self._spark is not None and not self._stopping.is_set():
                self._stop_spark(self._spark)

    def _run(self, running: RunningBroker) -> None:
        options = self._options
        self._phase(f"Starting Spark on {self._state.master}")
        conf = settings.conf_for(options.master, is_small=self._pipeline.is_example)
        try:
            self._spark = spark = odradek.spark.session(
                f"odradek pipeline {self._pipeline.name}",
                master=options.master,
                conf={**conf, **options.conf},
                quick_start=self._pipeline.is_example,
            )
        except Py4JError as error:
            raise SparkNotStartedError(
                f"Spark does not start on {self._state.master}. "
                + ("Is the master running?" if options.master else str(error).partition("\n")[0])
            ) from error
        if self._stopping.is_set():
            raise StoppedError
        if options.verbose:
            _silence(spark, REPORTED_BY_THE_RUNNER)
        else:
            spark.sparkContext.setLogLevel("OFF")
            _silence_servers()
        listener = ProgressListener(self._on_batch, self._on_end)
        spark.streams.addListener(listener)
        places = Places(
            spark,
            running.servers,
            options.output,
            options.checkpoints or "",
            options.client_settings,
            None if running.process is None else running.process.pid,
            self._is_continued,
            self._stopping,
            *(() if self._view is None else (self._view.sent, self._view.total)),
        )
        self._say_begin()
        self._phase("Running")
        lines = self._pipeline.run(self._console, places, self._arguments)
        if lines is None:
            self._wait(spark)
        self._code = 0 if lines is None else self._reconciled(list(lines))

    def _wait(self, spark: SparkSession) -> None:
        """Wait until all queries have ended.

        Raises:
            StreamingQueryException: a query failed.
            StoppedError: the user has stopped the pipeline.
        """
        while spark.streams.active:
            if spark.streams.awaitAnyTermination(1):
                spark.streams.resetTerminated()
            if self._stopping.is_set():
                raise StoppedError

    def _reconciled(self, lines: list[Line]) -> int:
        if self._options.as_json:
            found = [
                dict(zip(("what", "expected", "found"), map(str, e), strict=True)) for e in lines
            ]
            self._event("reconciled", lines=found)
        else:
            self._lines = lines
        return 0 if all(expected == found for _, expected, found in lines) else EXIT_FAILED

    # -- reports ----------------------------------------------------------------------------

    def _say_begin(self) -> None:
        state = self._state
        if self._options.as_json:
            self._event(
                "started", name=state.name, servers=state.servers, checkpoints=state.checkpoints
            )
            return
        self._print(f"Broker {state.servers}, Spark on {state.master}")
        self._print(f"Checkpoints in {state.checkpoints}")

    def _on_batch(self, report: Report) -> None:
        assert self._spark is not None, "queries need a session"
        with self._lock:
            before = self._state.queries.get(report.query_id)
            if before is None or before.checkpoint is None:
                found = checkpoint_and_groups(self._spark, report.query_id)
            else:
                found = before.checkpoint, before.groups
            self._state.queries[report.query_id] = QueryState(report, *found)
            self._file.save(self._state)
        if self._options.as_json:
            content = asdict(report)
            del content["watermark"], content["state_rows"]
            self._event("batch", **content)
        elif self._view is not None:
            self._view.batch(report)
        else:
            self._print(report.line())

    def _on_end(self, query_id: str, error: str | None) -> None:
        del error  # `awaitTermination` raises it
        with self._lock:
            query = self._state.queries.get(query_id)
            if query is not None:
                self._state.queries[query_id] = replace(query, is_active=False)
                self._file.save(self._state)

    def _phase(self, text: str) -> None:
        """Say what is done now: in the view, or in a line."""
        if self._view is not None:
            self._view.phase(text)
        elif not self._options.as_json:
            self._print(text)

    def _event(self, kind: str, **content: Any) -> None:
        sys.stdout.write(json.dumps({"event": kind, **content}) + "\n")
        sys.stdout.flush()

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _fail(self, text: str) -> None:
        """Report an error. After a signal, errors are the consequence of the end."""
        if self._stopping.is_set():
            return
        self._code = EXIT_FAILED
        with self._lock:
            self._state.failed(text)
            self._file.save(self._state)
        if self._options.as_json:
            self._event("failed", error=text)
        else:
            self._error = text

    def _show_end(self) -> None:
        """Print the results, or the error, when the view has ended."""
        if self._error is not None:
            errors = Console(stderr=True)
            errors.print(
                f"Error: {self._error}", style="red", markup=False, highlight=False, soft_wrap=True
            )
        elif self._lines is not None:
            show(self._console, self._lines)

    # -- the end ----------------------------------------------------------------------------

    def _end(self, worker: threading.Thread) -> None:
        """End queries and Spark, in the main thread, after a signal."""
        with self._lock:
            self._state.stopping()
            self._file.save(self._state)
        while self._spark is None and worker.is_alive():  # the session is about to start
            worker.join(POLL_S)
        if self._spark is not None:
            self._stop_spark(self._spark)
        worker.join(END_TIMEOUT_S)
        continues = _continues(self._pipeline, self._arguments)
        self._print("Stopped. The same command continues." if continues else "Stopped.")

    def _stop_spark(self, spark: SparkSession) -> None:
        """Stop queries and Spark, before the broker stops."""
        try:
            self._end_queries(spark)
            spark.sparkContext.setLogLevel("OFF")  # threads that end write errors
            spark.stop()
        except (Py4JError, OSError):
            self._print("Spark ended by itself, for example because it got the signal too")

    def _end_queries(self, spark: SparkSession) -> None:
        """Let each query complete its micro-batch, and stop it."""
        active = spark.streams.active
        grace_s = self._options.grace_s
        if active:
            self._print(
                f"Stopping: micro-batches may take {grace_s:g} s more; Ctrl-C stops them now"
            )
        last = {query.id: _last_batch(query) for query in active}
        deadline = time.monotonic() + grace_s
        left = list(active)
        while left and time.monotonic() < deadline and not self._must_hurry.is_set():
            for query in list(left):
                is_between = not query.status["isTriggerActive"]
                if not query.isActive or is_between or _last_batch(query) != last[query.id]:
                    query.stop()
                    left.remove(query)
            time.sleep(POLL_S if left else 0)
        for query in left:
            query.stop()


def _silence(spark: SparkSession, loggers: Iterable[str]) -> None:
    """Turn off loggers in the JVM."""
    assert spark._jvm is not None, "the session has a JVM"
    log4j = spark._jvm.org.apache.logging.log4j
    for name in loggers:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)


def _trace(error: Exception) -> str:
    """Return an error of the pipeline's code, and the last of its frames, without this module's."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    *_, last = traceback.format_exception_only(error)
    shown = traceback.extract_tb(frames)[-FRAMES_SHOWN:]
    places = (f'  File "{f.filename}", line {f.lineno}, in {f.name}\n    {f.line}' for f in shown)
    return "\n".join([sentence(last), *places])


def _silence_servers() -> None:
    """Let PySpark's server of accumulators end without a traceback when the JVM ends."""

    def report(server: socketserver.BaseServer, request: Any, address: Any) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            socketserver.BaseServer.handle_error(server, request, address)

    for kind in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        setattr(kind, "handle_error", report)  # noqa: B010  (mypy)


def _end_of_spark(error: Exception) -> str:
    """Return the message for the end of the JVM, which only the operating system can explain."""
    return (
        "Spark's process (java) has ended, for example because the machine has too little memory or "
        f"it was killed. Start the command again ({type(error).__name__}: {error})"
    )


def _last_batch(query: StreamingQuery) -> int | None:
    progress = query.lastProgress
    return None if progress is None else progress["batchId"]


__all__ = ["AlreadyRunningError", "OutputExistsError", "RunOptions", "execute"]
