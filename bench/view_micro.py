"""`python -m bench.view_micro`: the processor time of the view that a pipeline shows on a terminal.

The view is drawn `REFRESHES_PER_SECOND` times a second, however many rows the pipeline processes. So its
cost is the processor time of one drawing: as a share of one processor, and of all of this machine.
"""

from __future__ import annotations

import io
import os
import time
from dataclasses import replace

from rich.console import Console
from rich.live import Live

from odradek.pipelines.reports import Report
from odradek.pipelines.view import REFRESHES_PER_SECOND, View

QUERIES = 3
DRAWINGS = 200
WIDTH = 160
REPORT = Report(
    query_id="1",
    query="sessions",
    batch=3,
    at="2026-11-23T02:44:59.927Z",
    rows=1500,
    rows_per_second=3000.4,
    duration_ms=500,
    lag=500,
    watermark="2019-10-04T05:06:07.000Z",
    state_rows=1234,
)


def main() -> None:
    """Draw a view with three queries, each of which has a new micro-batch, and print its cost."""
    console = Console(file=io.StringIO(), force_terminal=True, width=WIDTH)
    view = View(console)
    view.phase("Running")
    view.total(1_000_000)
    with Live(get_renderable=view.render, console=console, auto_refresh=False) as live:
        live.refresh()
        began_s = time.process_time()
        for number in range(DRAWINGS):
            view.sent(number * 1000)
            for query in range(QUERIES):
                view.batch(replace(REPORT, query_id=str(query), batch=number))
            live.refresh()
        seconds = (time.process_time() - began_s) / DRAWINGS
    share = seconds * REFRESHES_PER_SECOND
    cores = os.cpu_count() or 1
    print(f"{seconds * 1000:.2f} ms of a processor for each drawing, {DRAWINGS} drawings")
    print(f"{share:.2%} of one processor, {share / cores:.2%} of the {cores} of this machine")


if __name__ == "__main__":
    main()
