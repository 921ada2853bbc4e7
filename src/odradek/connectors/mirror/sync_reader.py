"""Reads the topic of offset syncs into a `SyncStore`, and goes on for ever."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from odradek.client.consuming.consumer import Consumer
from odradek.client.core.consumed_batch import Batch
from odradek.client.errors import ClientError
from odradek.client.offsets import LATEST, offsets_at
from odradek.connectors.mirror.clients import make_cluster, make_consumer
from odradek.connectors.mirror.formats import MalformedRecordError, OffsetSync
from odradek.connectors.mirror.offset_syncs import SyncStore
from odradek.model.topic_partition import TopicPartition

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_PAUSE_SECONDS = 1.0
_END_SECONDS = 10.0


class SyncReader:
    """A thread that reads."""

    def __init__(
        self,
        settings: Mapping[str, str],
        topic: str,
        *,
        keeps_earlier: bool,
        stopping: threading.Event,
    ) -> None:
        """`keeps_earlier`: see `SyncStore`."""
        self._settings = {**settings, "auto.offset.reset": "earliest"}
        self._place = TopicPartition(topic, 0)
        self._stopping = stopping
        self._lock = threading.Lock()
        self._store = SyncStore(keeps_earlier=keeps_earlier)
        self._consumer: Consumer | None = None
        self._thread = threading.Thread(target=self._follow, name=f"reads-{topic}", daemon=True)

    @property
    def store(self) -> AbstractContextManager[SyncStore]:
        """The offset syncs, for one thread at a time."""
        return self._held()

    @contextmanager
    def _held(self) -> Iterator[SyncStore]:
        with self._lock:
            yield self._store

    def start(self) -> None:
        """Read up to the present end, then go on in a thread.

        Raises:
            ClientError: the topic cannot be read.
        """
        with make_cluster(self._settings, "consumer") as cluster:
            end = offsets_at(cluster, [self._place], LATEST)[self._place]
        if self._consumer is None:
            self._consumer = make_consumer(self._settings)
            self._consumer.assign([self._place])
        consumer = self._consumer
        while not self._stopping.is_set():
            if consumer.position(self._place) >= end:
                break
            self._take(consumer.poll(_POLL_SECONDS))
        with self._lock:
            self._store.completed()
        self._thread.start()

    def _take(self, batch: Batch | None) -> None:
        if batch is None:
            return
        for record in batch:
            try:
                sync = OffsetSync.read(record.key, record.value)
            except MalformedRecordError as error:
                log.warning("the record %s of %s: %s", record.offset, self._place, error)
                continue
            with self._lock:
                self._store.add(sync)

    def _follow(self) -> None:
        assert self._consumer is not None, "it is started"
        while not self._stopping.is_set():
            try:
                self._take(self._consumer.poll(_POLL_SECONDS))
            except ClientError as error:
                log.warning("%s cannot be read: %s", self._place, error)
                self._stopping.wait(_PAUSE_SECONDS)

    def close(self) -> None:
        """End the thread, after `stopping` was set."""
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)
        if self._consumer is not None:
            self._consumer.close(_END_SECONDS)
