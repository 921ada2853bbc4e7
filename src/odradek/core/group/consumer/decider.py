"""The base class of the classes that process members' requests, in both protocols."""

from __future__ import annotations

from odradek.core.group.consumer.joining import Joining
from odradek.core.group.consumer.leaving import Leaving
from odradek.core.group.consumer.migration import Migration
from odradek.core.group.consumer.progress import Progress
from odradek.core.group.consumer.targets import Targets
from odradek.core.group.state import GroupState


class Decider:
    """Stores the parts. Each part processes one step of a request (see the package)."""

    def __init__(
        self,
        state: GroupState,
        migration: Migration,
        joining: Joining,
        targets: Targets,
        progress: Progress,
        leaving: Leaving,
    ) -> None:
        self._state = state
        self._migration = migration
        self._joining = joining
        self._targets = targets
        self._progress = progress
        self._leaving = leaving
