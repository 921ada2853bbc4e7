"""Who is told when the metadata changes.

Called on the loop's thread, once per committed change (or once for all that was committed before
the node started), in the order of registration. A publisher must not await and should not fail: what it
cannot do now it notes and retries by itself.
"""

from __future__ import annotations

import logging
from typing import Protocol

from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage

log = logging.getLogger("odradek.metadata")


class Publisher(Protocol):
    """One who acts on changes: opens logs, swaps settings, moves coordinators."""

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """`image` is what `delta` made of `delta.image_before`."""
        ...


class PublisherChain:
    """Tells all publishers, in order; the first is the metadata cache.

    A defect of one publisher is logged and does not keep the change from the others: they would
    fall behind for ever, while the log goes on.
    """

    def __init__(self, *publishers: Publisher) -> None:
        self._publishers = list(publishers)
        self.failures = 0
        """Publications that raised; a metric."""

    def add(self, publisher: Publisher) -> None:
        """Append a publisher; those that come late are not told what was before."""
        self._publishers.append(publisher)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See `Publisher`."""
        for publisher in self._publishers:
            try:
                publisher.publish(delta, image)
            except Exception:
                self.failures += 1
                log.exception(
                    "%s failed on the metadata up to offset %d",
                    type(publisher).__name__,
                    image.offset,
                )
