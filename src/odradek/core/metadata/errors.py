"""What can be wrong with a metadata log."""

from __future__ import annotations


class MetadataError(Exception):
    """The metadata log cannot be understood. A node must not go on with what it has read."""


class MetadataFormatError(MetadataError):
    """Bytes that are no metadata record of a known type and version."""


class ReplayError(MetadataError):
    """A record that contradicts the image: it changes something that does not exist."""
