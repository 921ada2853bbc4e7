"""Errors of a metadata log."""

from __future__ import annotations


class MetadataError(Exception):
    """The metadata log cannot be read.

    A node must not continue with the records that it has read.
    """


class MetadataFormatError(MetadataError):
    """The bytes are not a metadata record of a known type and version."""


class ReplayError(MetadataError):
    """A record that contradicts the image: it changes something that does not exist."""
