"""What Spark reports of a micro-batch, and what is shown of it."""

from __future__ import annotations

from odradek.pipelines.reports import report_of

PROGRESS = {
    "id": "d956aceb-30f3-453c-9b8e-0a46296eeb8c",
    "name": None,
    "timestamp": "2026-11-23T02:44:59.927Z",
    "batchId": 7,
    "durationMs": {"latestOffset": 3, "triggerExecution": 1500},
    "processedRowsPerSecond": 1234.6,
    "sources": [
        {
            "endOffset": {"a": {"0": 10, "1": 5}, "/ids": {"a": "00ff"}},
            "latestOffset": {"a": {"0": 12, "1": 5}},
            "numInputRows": 1500,
        }
    ],
}


def report(**changes):
    return report_of({**PROGRESS, **changes})


def test_a_batch():
    found = report()
    assert (found.query, found.batch, found.rows, found.lag) == ("d956aceb", 7, 1500, 2)
    assert found.line().split() == (
        [
            "02:44:59",
            "d956aceb",
            "batch",
            "7",
            "1,500",
            "rows",
            "1,235",
            "rows/s",
            "lag",
            "2",
            "1.50",
            "s",
        ]
    )


def test_the_name_of_a_query():
    assert report(name="words").query == "words"


def test_several_sources_add_up():
    found = report(sources=PROGRESS["sources"] * 2)
    assert (found.rows, found.lag) == (3000, 4)


def test_a_new_partition_counts_from_its_beginning():
    source = {"endOffset": {"a": {"0": 3}}, "latestOffset": {"a": {"0": 4, "1": 6}}}
    assert report(sources=[source]).lag == 7


def test_a_source_without_offsets_of_topics_has_no_lag():
    other = {"endOffset": 3, "latestOffset": 5, "numInputRows": 1}
    assert report(sources=[other]).lag is None
    assert report(sources=[*PROGRESS["sources"], other]).lag is None
    assert report(sources=[{"endOffset": {"a": 1}, "latestOffset": {"a": 2}}]).lag is None
    assert "lag -" in report(sources=[other]).line()


def test_no_rows_and_no_rate():
    found = report(sources=[], processedRowsPerSecond="NaN", durationMs={})
    assert (found.rows, found.rows_per_second, found.duration_ms, found.lag) == (0, 0.0, 0, None)
