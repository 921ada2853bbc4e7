"""What a response to Fetch says about aborted transactions."""

from __future__ import annotations

from typing import NamedTuple


class AbortedTransaction(NamedTuple):
    """The records of this producer are aborted from `first_offset` to the next abort marker."""

    producer_id: int
    first_offset: int
