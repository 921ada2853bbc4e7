"""Resolves the regular expressions (patterns) in members' subscriptions.

A thread matches the patterns against the names of all topics. All patterns of a group are matched
together, so that there is only one rebalance. Before a new pattern is matched for the first
time, it has no topics. The patterns are matched again when a member subscribes to a new pattern or
when there are new topics, but not within ten seconds after the last time. The patterns are also
matched again after `group.consumer.regex.refresh.interval.ms`.

Topics that the client may not DESCRIBE do not match. The client is the one whose request causes the
matching (KAFKA-18813).
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from functools import partial
from typing import Any

from odradek.core.coordinator.machine import Task
from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import NO_RECORDS, CoordinatorResult
from odradek.core.group.consumer import records
from odradek.core.group.consumer.group import ConsumerGroup
from odradek.core.group.consumer.member import ConsumerMember
from odradek.core.group.consumer.regex import CostlyRegex, InvalidRegex, Regex
from odradek.core.group.group import GroupType, Visible
from odradek.core.group.modern.subscriptions import UNRESOLVED, adjust_all
from odradek.core.group.modern.topics import Topics
from odradek.core.group.state import GroupState
from odradek.model.errors import ApiError, ErrorCode

REFRESH_MIN_MS = 10_000
"""Minimum time between two resolutions of a group's patterns."""

Matches = dict[str, frozenset[str]]
"""The matching topics of each pattern."""


class RegexChange(Enum):
    """How a member's pattern has changed."""

    NONE = "the pattern is the same"
    UPDATED = "the pattern is different, and its topics are not known yet"
    RESOLVED = "the pattern is different or was removed, and its topics are known"


class Patterns:
    """Processes changes of members' patterns, and resolves patterns."""

    def __init__(self, state: GroupState, topics: Topics) -> None:
        self._state = state
        self._topics = topics

    def update(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        log: list[CoordinatorRecord],
        visible: Visible | None,
    ) -> RegexChange:
        """Process a change of a member's pattern. Resolve the group's patterns if necessary.

        Topics that are not `visible` to the client of this request do not match.

        Raises:
            ApiError: INVALID_REGULAR_EXPRESSION.
        """
        change = self._change(group, before, after, log)
        regexes = group.regex_counts_with(before, after)
        if regexes and self._is_time(group, regexes):
            self._resolve(group.group_id, tuple(regexes), visible)
        return change

    def _change(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        log: list[CoordinatorRecord],
    ) -> RegexChange:
        old, new = before.topic_regex, after.topic_regex
        if old == new:
            return RegexChange.NONE
        if old and group.regex_counts.get(old) == 1:
            log.append(records.resolved_regex_tombstone(group.group_id, old))
        if not new:
            return RegexChange.RESOLVED if old else RegexChange.UPDATED
        if new in group.regex_counts:
            is_known = new in group.resolved_regexes
            return RegexChange.RESOLVED if is_known else RegexChange.UPDATED
        try:
            Regex(new)
        except InvalidRegex as error:
            raise ApiError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex {new!r} is not valid: {error}.",
            ) from error
        return RegexChange.UPDATED

    def _is_time(self, group: ConsumerGroup, regexes: Collection[str]) -> bool:
        """Return whether the group's patterns must be resolved now."""
        last = next(iter(group.resolved_regexes.values()), None)
        if last is None:
            return True
        now_ms = self._state.clock.now_ms()
        if now_ms <= last.timestamp_ms + REFRESH_MIN_MS:
            return False
        interval_ms = self._state.config.group_consumer_regex_refresh_interval_ms
        return (
            len(regexes) != len(group.resolved_regexes)
            or last.version < self._topics.newest_version
            or now_ms > last.timestamp_ms + interval_ms
        )

    def _resolve(self, group_id: str, regexes: Collection[str], visible: Visible | None) -> None:
        now_ms = self._state.clock.now_ms()
        self._state.effects.tasks.append(
            Task(
                ("regex", group_id),
                partial(match_all, regexes, self._topics.names),
                partial(self._on_resolved, group_id, self._topics.version, now_ms, visible),
            )
        )

    def _on_resolved(
        self,
        group_id: str,
        version: int,
        timestamp_ms: int,
        visible: Visible | None,
        outcome: Any,
    ) -> CoordinatorResult[None]:
        """Store the topics of the patterns. If they have changed, increase the group epoch."""
        if isinstance(outcome, BaseException):
            self._state.note(group_id, f"patterns could not be matched: {outcome!r}")
            return CoordinatorResult(NO_RECORDS, None)
        group = self._state.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return CoordinatorResult(NO_RECORDS, None)
        matches: Matches = outcome
        if visible is not None:
            shown = visible(frozenset().union(*matches.values()))
            matches = {regex: topics.intersection(shown) for regex, topics in matches.items()}
        log: list[CoordinatorRecord] = []
        counts = dict(group.topic_counts)
        has_changed = False
        for regex, topics in matches.items():
            if regex not in group.regex_counts:
                continue  # no member subscribes to the pattern any more
            known = group.resolved_regexes.get(regex, UNRESOLVED).topics
            if known != topics:
                has_changed = True
                adjust_all(counts, known, regexes=-1)
                adjust_all(counts, topics, regexes=1)
            log.append(records.resolved_regex(group_id, regex, topics, version, timestamp_ms))
        metadata_hash = self._topics.group_hash(counts)
        if has_changed or metadata_hash != group.metadata_hash:
            log.append(records.group_epoch(group_id, group.group_epoch + 1, metadata_hash))
            self._state.note(
                group_id, f"epoch {group.group_epoch + 1}: patterns match other topics"
            )
            self._state.rebalances[GroupType.CONSUMER] += 1
        return CoordinatorResult(log, None)


def match_all(regexes: Collection[str], topics: Collection[str]) -> Matches:
    """Return the topics that each pattern matches completely. Runs in a thread."""
    return {regex: _matching(regex, topics) for regex in regexes}


def _matching(regex: str, topics: Collection[str]) -> frozenset[str]:
    """Return the topics that match a pattern.

    Return no topics if the pattern takes too long or is invalid. A pattern may be invalid because
    another coordinator has accepted it.
    """
    try:
        matcher = Regex(regex)
        return frozenset(topic for topic in topics if matcher.matches(topic))
    except (InvalidRegex, CostlyRegex):
        return frozenset()
