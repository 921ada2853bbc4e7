"""The word count of the documents, in the test driver."""

from __future__ import annotations

import pytest

from odradek.streams import App, TestDriver


def word_count(**settings):
    app = App("word-count", **settings)
    counts = (
        app.stream("lines", value=str)
        .flat_map_values(lambda line: line.lower().split())
        .group_by(lambda word: word)
        .count(store="counts")
    )
    counts.to_stream().to("word-counts")
    return app


def test_each_word_is_counted():
    with TestDriver(word_count(cache_max_bytes=0)) as driver:
        driver.topic("lines").pipe(None, "to be or not to be", at=7)
        assert driver.topic("word-counts").read() == [
            ("to", 1, 7),
            ("be", 1, 7),
            ("or", 1, 7),
            ("not", 1, 7),
            ("to", 2, 7),
            ("be", 2, 7),
        ]
        assert driver.store("counts").get("be") == (2, 7)


def test_state_is_written_to_the_changelog_and_comes_from_it():
    with TestDriver(word_count()) as driver:
        driver.topic("lines").pipe(None, "to be or not to be", at=7)
        changelog = driver.topic("word-count-counts-changelog").read_raw()
    with TestDriver(word_count()) as later:
        for record in changelog:
            later.store("counts").restore(record.key, record.value, record.timestamp)
        later.topic("lines").pipe(None, "be", at=9)
        assert later.topic("word-counts").read() == [("be", 3, 9)]


@pytest.mark.parametrize(
    ("split", "word"),
    [
        (lambda line: line.split(), lambda word: word),
        (lambda _, line: line.split(), lambda _, word: word),
        (str.split, lambda _key, word: word),
    ],
)
def test_functions_get_the_value_or_the_key_and_the_value(split, word):
    app = App("word-count")
    app.stream("lines").flat_map_values(split).group_by(word).count().to_stream().to("word-counts")
    with TestDriver(app) as driver:
        driver.topic("lines").pipe("key", "to be to")
        assert driver.topic("word-counts").read_values() == {"to": 2, "be": 1}
