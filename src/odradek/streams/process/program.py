"""The name under which the file of a program is loaded (`loading`)."""

from __future__ import annotations

MODULE = "odradek_streams_application"
