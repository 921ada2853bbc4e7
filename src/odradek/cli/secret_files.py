"""Writes files with passwords and keys."""

from __future__ import annotations

import os
from pathlib import Path


def write_secret(file: Path, data: bytes) -> None:
    """Replace a file at once. Only its owner can read it."""
    temporary = file.with_name(f"{file.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(data)
    temporary.replace(file)
