"""Writes the generated codecs to a directory from which Python can import them.

A wheel contains the generated codecs, which the build hook (`hatch_build.py`) creates. A source
checkout generates the codecs at first use, and again after a declaration or the generator has
changed. The directory is `generated` next to this file. If it is not writable, a directory in the
user's cache is used.
"""

from __future__ import annotations

import os
import py_compile
import tempfile
from pathlib import Path

WIRE = Path(__file__).parent
MESSAGES = WIRE / "messages"
GENERATED = WIRE / "generated"
GENERATORS = ("declaration", "source", "decoder", "encoder", "generator")
"""The modules that the generated code depends on."""
STAMP = "STAMP"
BUILT = "built"
"""The content of the stamp file in a wheel. The modules in a wheel are always up to date."""


def fingerprint() -> str:
    """Return a text that changes when the size or time of a declaration or generator changes."""
    sources = [*MESSAGES.glob("*.msg"), *(WIRE / f"{name}.py" for name in GENERATORS)]
    stats = [(path.name, path.stat()) for path in sorted(sources)]
    parts = [f"{name}:{stat.st_size}:{stat.st_mtime_ns}" for name, stat in stats]
    return "\n".join(parts)


def generate(directory: Path, stamp: str) -> None:
    """Write and byte-compile one module per message. Then write the stamp file.

    Several processes may do this at the same time, because each file is replaced atomically.
    """
    from odradek.wire import declaration, generator
    from odradek.wire.names import snake_case

    messages, apis = declaration.read_all(MESSAGES)
    directory.mkdir(parents=True, exist_ok=True)
    sources = {snake_case(m.name): generator.module_source(m) for m in messages}
    sources["registry"] = generator.registry_source(apis)
    for name, source in sources.items():
        path = directory / f"{name}.py"
        if _replace(path, source):
            py_compile.compile(str(path), quiet=1)
    _replace(directory / STAMP, stamp)


def _replace(path: Path, text: str) -> bool:
    """Replace the content of a file atomically. Return False if the file had this content."""
    try:
        if path.read_text(encoding="utf-8") == text:
            return False
    except OSError:
        pass
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(name, path)
    return True


def ensure() -> list[str]:
    """Generate the modules if needed. Return the `__path__` of the package `generated`."""
    stamp_path = GENERATED / STAMP
    stamp = stamp_path.read_text(encoding="utf-8") if stamp_path.exists() else None
    if stamp == BUILT or not MESSAGES.is_dir():
        return [str(GENERATED)]
    wanted = fingerprint()
    if stamp == wanted:
        return [str(GENERATED)]
    if os.access(GENERATED, os.W_OK):
        generate(GENERATED, wanted)
        return [str(GENERATED)]
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(base) / "odradek" / "wire"
    if not (cache / STAMP).exists() or (cache / STAMP).read_text(encoding="utf-8") != wanted:
        generate(cache, wanted)
    return [str(GENERATED), str(cache)]
