"""Errors of topologies and tasks."""

from __future__ import annotations


class StreamsError(Exception):
    """Any error of this package."""


class TopologyError(StreamsError):
    """The program declares a topology that cannot work. The message says what to change."""


class EncodingError(StreamsError):
    """A value does not have the declared type, or bytes cannot be decoded as it."""


class ProcessingError(StreamsError):
    """A function of the program raised an error for a record.

    Attributes:
        node: the name of the operator.
        where: the topic, partition and offset of the record, as text.
    """

    def __init__(self, node: str, where: str, cause: BaseException) -> None:
        super().__init__(f"{node} failed at {where}: {type(cause).__name__}: {cause}")
        self.node = node
        self.where = where


class BufferFull(StreamsError):
    """The buffer of `suppress` is full, and the program wants to stop then."""
