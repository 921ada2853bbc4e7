"""Cleans a log with a worker process, as in a node: `python -m bench.compaction.clean DIRECTORY`.

The build that is measured is the one in the environment of the interpreter. The output is one line
of JSON: the seconds of the rounds, the processor seconds of the worker, and its peak memory in MB.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from bench.compaction.logs import config_for, open_directory
from odradek.env.process import PipedProcess
from odradek.log import PartitionLog
from odradek.log.cleaner.child import WORKER, ProcessChild
from odradek.log.cleaner.facts import facts_of, work_item
from odradek.log.cleaner.planning import find_cleanable
from odradek.log.cleaner.work import Done, Failed, Replaced, WorkItem, encode_item

POLL_SECONDS = 0.01


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def peak_megabytes(pid: int) -> int:
    """Return the peak resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
    raise RuntimeError("the system does not report the memory of a process")


def clean(path: Path) -> dict[str, float]:
    """Clean the log in `path`, in as many rounds as necessary. Return the figures by name."""
    config, log = config_for(path), open_directory(path)
    log.high_watermark = log.log_end_offset
    process = PipedProcess(WORKER)
    child = ProcessChild(process)
    seconds = 0.0
    while (cleanable := find_cleanable(facts_of(log), log.storage.clock.now_ms())).dirty_bytes:
        done = _round(child, log, work_item(log, cleanable, config, 1, 1e300))
        seconds += done.elapsed_ms / 1000
        log.cleaning.cleaned_to(done.next_offset)
    found = {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds(process.pid),
        "memory_mb": peak_megabytes(process.pid),
    }
    child.kill()
    log.close()
    return found


def _round(child: ProcessChild, log: PartitionLog, item: WorkItem) -> Done:
    child.send(encode_item(item))
    while True:
        for message in child.receive():
            match message:
                case Replaced():
                    log.replace_segments(message.old, message.size)
                case Done():
                    return message
                case Failed():
                    raise RuntimeError(message.reason)
        if not child.is_alive:
            raise RuntimeError("the worker has ended")
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    print(json.dumps(clean(Path(sys.argv[1]))))
