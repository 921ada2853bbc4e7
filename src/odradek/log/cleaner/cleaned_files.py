"""The `.cleaned` files of a new segment before it replaces the old ones."""

from __future__ import annotations

from odradek.env.file_system import FileSystem
from odradek.log import names


def cleaned_path(directory: str, base_offset: int, kind: str) -> str:
    """Return the path of a `.cleaned` file."""
    return f"{directory}/{names.file_name(base_offset, kind)}{names.CLEANED}"


def remove_cleaned(file_system: FileSystem, directory: str, base_offset: int) -> None:
    """Remove the `.cleaned` files of a segment, which an earlier attempt may have left.

    Raises:
        OSError: the device failed.
    """
    for kind in names.SEGMENT_KINDS:
        try:
            file_system.remove(cleaned_path(directory, base_offset, kind))
        except FileNotFoundError:
            continue
