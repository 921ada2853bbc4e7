"""Compares the answers of Kafka Streams and of odradek.streams."""

from __future__ import annotations

import json

from tests.streams_api.generator import generate
from tests.streams_api.interpreter import run

KNOWN_ERRORS = ("Found a null keyChangingChild",)
"""Kafka Streams' optimizer refuses some topologies by mistake. Ours need not."""


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
    found = []
    for seed in seeds:
        request = generate(seed)
        text = difference(oracle.ask([request])[0], answer(request))
        if text is not None:
            found.append(f"seed {seed}: {text}\n{json.dumps(request)}")
    return found
