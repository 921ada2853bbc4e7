"""Errors of a metadata log."""

from __future__ import annotations


class MetadataError(Exception):
    """The metadata log cannot be read. The node must not continue with incomplete metadata."""


class MetadataFormatError(MetadataError):
    """The bytes are not a metadata record of a known type and version."""


class ReplayError(MetadataError):
    """A record contradicts the image. For example, it changes a topic that does not exist."""
