"""Notifies the publishers when the committed metadata changes.

A publisher is a part of the node that applies metadata changes. Publishers are called on the event
loop's thread, in the order of their registration.

A publisher that raises an exception has missed the change. It is called again after a second, or
with the next change if that comes first. The delta of this call contains all differences between
the newest image and the last image that the publisher has applied. In Apache Kafka the publisher
does not get the missed change again.
Decision: docs/decisions/metadata-publishers.md.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.core.metadata.snapshot import delta_between

log = logging.getLogger("odradek.metadata")

RETRY_SECONDS = 1.0
"""Delay before a publisher that failed is called again."""


class Publisher(Protocol):
    """Applies metadata changes to a part of the node, such as logs, settings or coordinators."""

    def load(self, image: MetadataImage) -> None:
        """Load the whole image. This method is called once, when the publisher is added."""
        ...

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply a change. `image` is the result of `delta`.

        If this method raises an exception, it is called again. The next delta may contain changes
        that the publisher has already applied.
        """
        ...


class _Registered:
    """A publisher and the last image that it has applied."""

    __slots__ = ("image", "publisher")

    def __init__(self, publisher: Publisher, image: MetadataImage) -> None:
        self.publisher = publisher
        self.image = image

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Publish a change. If the publisher has missed changes, the delta contains them too.

        Raises:
            Exception: the publisher failed.
        """
        if delta.image_before is not self.image:
            delta = delta_between(self.image, image)
        self.publisher.publish(delta, image)
        self.image = image


class Publishers:
    """All publishers of a node. Use it only on the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._registered: list[_Registered] = []
        self._newest = EMPTY_IMAGE
        self._retry: asyncio.TimerHandle | None = None
        self.failures = 0
        """How often a publisher has raised an exception (Kafka's metadata-apply-error-count)."""

    def add(self, publisher: Publisher, image: MetadataImage) -> None:
        """Add a publisher and load the newest image into it.

        Raises:
            Exception: the publisher cannot load the image, and is not added.
        """
        publisher.load(image)
        self._newest = image
        self._registered.append(_Registered(publisher, image))

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Call all publishers with a change; the failure of one does not affect the others."""
        self._newest = image
        for each in self._registered:
            self._publish(each, delta, image)

    def _publish(self, to: _Registered, delta: MetadataDelta, image: MetadataImage) -> None:
        try:
            to.publish(delta, image)
        except Exception:
            self.failures += 1
            log.exception(
                "%s failed on the metadata up to offset %d; it is called again",
                type(to.publisher).__name__,
                image.offset,
            )
            if self._retry is None:
                self._retry = self._loop.call_later(RETRY_SECONDS, self._publish_again)

    def _publish_again(self) -> None:
        self._retry = None
        newest = self._newest
        for each in self._registered:
            if each.image is not newest:
                self._publish(each, MetadataDelta(newest), newest)

    def close(self) -> None:
        """Cancel the repetition of failed calls."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
