"""The responses in a comparable form, and the recorded responses of Apache Kafka.

All fields of a response are compared, except those that differ from run to run. A field with its
default value is left out, so that the file is short. The order of arrays is not compared.

`DEVIATIONS` has the intended differences with their reasons.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from compat.lab.maven import NEXT_VERSION
from tests.authorizer.matrix.stage import Stage

from odradek.model.errors import ErrorCode
from odradek.wire.primitives import Struct

FILE = Path(__file__).with_name("recorded.json")
COMMAND = "ODRADEK_VICTIM=apache python -m pytest -m long tests/authorizer/matrix"
SHOWN_MAX = 40

DEVIATIONS = {
    "IncrementalAlterConfigs 1 on a controller: an invalid value of a broker: *": (
        "a controller of Apache Kafka stores settings that no broker can use"
    ),
    "IncrementalAlterConfigs 1 on a controller: null values: *": (
        "a controller of Apache Kafka takes the value null for a removal"
    ),
    "DescribeUserScramCredentials 0 on a controller: *": (
        "controllers of Apache Kafka advertise the API, and fail"
    ),
    "DescribeDelegationToken ? on a controller: *": (
        "controllers of Apache Kafka advertise the API, and fail"
    ),
    "UpdateRaftVoter 0 on a controller: of another cluster: right": (
        "Odradek does not name the leader to nodes of other clusters"
    ),
}
"""Pattern of cases -> why the responses differ."""

OMITTED = frozenset(("throttle_time_ms", "error_message", "message"))
MASKED = frozenset(
    (
        *("cluster_id", "port", "producer_id", "session_id", "broker_epoch", "log_dir"),
        *("total_bytes", "usable_bytes", "partition_size", "transaction_start_time_ms"),
        *("client_instance_id", "subscription_id", "replica_directory_id", "metadata_offset"),
        *("finalized_features_epoch", "last_timestamp"),
        *("token_id", "hmac", "issue_timestamp", "expiry_timestamp", "max_timestamp"),
        *("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"),
    )
)
"""If such a field has not its default value, the value is not compared."""
MASKED_OF = {
    "ApiVersions": frozenset(("api_keys", "supported_features", "finalized_features")),
    "DescribeQuorum": frozenset(
        (
            *("leader_epoch", "high_watermark", "log_end_offset", "last_fetch_timestamp"),
            "last_caught_up_timestamp",
        )
    ),
}
SHOWN_OF = {"SaslAuthenticate": frozenset(("error_message",))}
"""Clients show these fields to people."""
CODES = frozenset(("error_code", "partition_error_code", "topic_config_error_code"))
UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def comparable(stage: Stage, api: str, answer: Any) -> Any:
    """Return what is compared of a response, as JSON."""
    masked = MASKED | MASKED_OF.get(api, frozenset())
    omitted = OMITTED - SHOWN_OF.get(api, frozenset())
    return _Form(stage.names_of_topics, masked, omitted).plain(answer)


def text(outcome: Any) -> str:
    """Return an outcome as text."""
    return json.dumps(outcome, sort_keys=True)


class _Form(NamedTuple):
    """How the responses of an API are compared."""

    names_of_topics: Mapping[bytes, str]
    masked: frozenset[str]
    omitted: frozenset[str]

    def plain(self, value: Any) -> Any:
        """Return a value without what is not compared."""
        if isinstance(value, Struct):
            default = type(value)()
            return {
                name: self._field(name, each)
                for name in type(value).__slots__
                if name not in self.omitted
                and (each := getattr(value, name)) != getattr(default, name)
            }
        if isinstance(value, (list, tuple)):
            return sorted(map(self.plain, value), key=text)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value).hex()
        if isinstance(value, str):
            return UUID.sub("<id>", value)
        return value

    def _field(self, name: str, value: Any) -> Any:
        if name in self.masked:
            return "*"
        if name in CODES:
            return ErrorCode(value).name  # type: ignore[call-arg]
        if name == "topic_id":
            return self.names_of_topics.get(value, "another")
        if name == "records":
            return len(value or b"")
        return self.plain(value)


def load() -> dict[str, str]:
    """Return the recorded responses by case."""
    recorded = json.loads(FILE.read_text(encoding="utf-8"))
    texts = [text(each) for each in recorded["answers"]]
    return {case: texts[number] for case, number in recorded["cases"].items()}


def store(outcomes: Mapping[str, str]) -> None:
    """Replace the recorded responses. Equal responses are stored once."""
    answers = sorted(set(outcomes.values()))
    number_of = {each: number for number, each in enumerate(answers)}
    cases = (f"  {json.dumps(case)}: {number_of[outcome]}" for case, outcome in outcomes.items())
    texts = (f"  {each}" for each in answers)
    FILE.write_text(
        f'{{"broker": "Apache Kafka {NEXT_VERSION}",\n "command": {json.dumps(COMMAND)},\n'
        ' "answers": [\n' + ",\n".join(texts) + '],\n "cases": {\n' + ",\n".join(cases) + "\n}}\n",
        encoding="utf-8",
    )


def check(outcomes: Mapping[str, str], *, deviations: Mapping[str, str] = DEVIATIONS) -> None:
    """Check that the responses are the recorded ones, apart from `deviations`."""
    theirs = load()
    assert theirs.keys() == outcomes.keys(), "other requests are recorded: record again"
    different = {case for case, outcome in outcomes.items() if outcome != theirs[case]}
    wrong = [
        case
        for case in outcomes
        if case in different and not any(fnmatchcase(case, each) for each in deviations)
    ]
    shown = "\n".join(
        f"{case}\n  {outcomes[case]}\n  {theirs[case]} from Apache Kafka"
        for case in wrong[:SHOWN_MAX]
    )
    assert not wrong, f"{len(wrong)} of {len(outcomes)} responses differ:\n{shown}"
    unmet = [each for each in deviations if not any(fnmatchcase(case, each) for case in different)]
    assert not unmet, f"no longer different: {unmet}"
