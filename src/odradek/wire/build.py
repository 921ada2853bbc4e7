"""Generates the codecs into a directory that Python can import from.

A wheel contains them (created by the build hook, `hatch_build.py`). A source checkout generates
them at first use, and again when a declaration or the generator has changed. The directory is next
to this file, or in the user's cache if that is not writable.
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
"""The stamp in a wheel, whose modules are always up to date."""


def fingerprint() -> str:
    """Return a value that changes with declarations and generator (sizes and times only)."""
    sources = [*MESSAGES.glob("*.msg"), *(WIRE / f"{name}.py" for name in GENERATORS)]
    stats = [(path.name, path.stat()) for path in sorted(sources)]
    parts = [f"{name}:{stat.st_size}:{stat.st_mtime_ns}" for name, stat in stats]
    return "\n".join(parts)


def generate(directory: Path, stamp: str) -> None:
    """Write one module per message, byte-compiled, and the stamp last.

    Safe while another process does the same: each file is replaced atomically.
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
    """Replace `path` with `text` atomically; return False if it had this content already."""
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
    """Generate the modules if needed; return their directory, the `__path__` of their package."""
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
