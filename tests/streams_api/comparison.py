"""Compares the answers of Kafka Streams and of odradek.streams."""

from __future__ import annotations

import json

from tests.streams_api.generator import generate
from tests.streams_api.interpreter import run
from tests.support.progress import report

KNOWN_ERRORS = (
    "Found a null keyChangingChild",
    "NullPointerException: key cannot be null",
)
"""Faults of Kafka Streams: its optimizer refuses some topologies, and a stream record without key fails a left
join with a versioned table that has a grace period. Ours need not."""
SMALL_CACHE_BYTES = 1000
EVICTIONS_IN = 1000
"""One of so many histories may differ in when an entry leaves a cache of some bytes."""


def answer(request):
    """Return our answer to a request, or why it was refused."""
    try:
        return run(request)
    except Exception as error:  # noqa: BLE001 - any refusal is compared
        return {"error": f"{type(error).__name__}: {error}"}


def difference(java, ours):
    """Return what differs as text, or None."""
    if "error" in java and any(known in java["error"] for known in KNOWN_ERRORS):
        return None
    if "error" in java or "error" in ours:
        if ("error" in java) == ("error" in ours):
            return None
        return f"Java: {java.get('error', 'accepts it')}\nours: {ours.get('error', 'accepts it')}"
    if java["describe"] != ours["describe"]:
        return f"Java: {java['describe']}\nours: {ours['describe']}"
    for number, (theirs, mine) in enumerate(zip(java["steps"], ours["steps"], strict=True)):
        if theirs != mine:
            return f"step {number}\nJava: {theirs}\nours: {mine}"
    return None


def compare(oracle, seeds):
    """Return the differences of the histories of seeds as text."""
    found, evictions = [], []
    for number, seed in enumerate(seeds):
        report(number, len(seeds), "histories")
        request = generate(seed)
        text = difference(oracle.ask([request])[0], answer(request))
        if text is None:
            continue
        text = f"seed {seed}: {text}\n{json.dumps(request)}"
        is_small = 0 < request["settings"]["cache"] < SMALL_CACHE_BYTES
        (evictions if is_small and _agrees_otherwise(oracle, request) else found).append(text)
    if len(evictions) > 1 + len(seeds) // EVICTIONS_IN:
        found += evictions
    return found


def _agrees_otherwise(oracle, request):
    """Return whether the results are equal without a cache, and with a cache that is never full."""
    for cache in (0, 10_000_000):
        other = {**request, "settings": {**request["settings"], "cache": cache}}
        if difference(oracle.ask([other])[0], answer(other)) is not None:
            return False
    return True
