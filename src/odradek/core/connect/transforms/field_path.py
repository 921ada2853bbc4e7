"""Paths to fields of fields (KIP-821): `a.b`, with backticks around a name that has dots."""

from __future__ import annotations

from odradek.core.connect.errors import ConfigError


def parse_path(path: str) -> list[str]:
    r"""Return the names on the way. In backticks, `\`` is a backtick.

    Raises:
        ConfigError: a backtick has no end.
    """
    names: list[str] = []
    position = 0
    while position <= len(path):
        if path[position : position + 1] == "`":
            name, position = _quoted(path, position + 1)
        else:
            end = path.find(".", position)
            end = len(path) if end < 0 else end
            name, position = path[position:end], end + 1
        names.append(name)
    return names


def _quoted(path: str, start: int) -> tuple[str, int]:
    end = start
    while True:
        end = path.find("`", end)
        if end < 0:
            raise ConfigError(
                f"Incomplete backtick pair in path: [{path}], consider adding a backslash"
            )
        follows = path[end + 1 : end + 2]
        if path[end - 1] != "\\" and follows in ("", "."):
            return path[start:end].replace("\\`", "`"), end + 2
        end += 1
