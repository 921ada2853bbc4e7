"""Makes the directory of a new pipeline from the files in `template`."""

from __future__ import annotations

import importlib.util
import keyword
from pathlib import Path

TEMPLATE = Path(__file__).with_name("template")
NAME_MARK = "$name"


def create(name: str, parent: Path) -> list[Path]:
    """Make the directory `name` in `parent`, and return its files.

    Raises:
        ValueError: the name is not one of a new module, or the directory exists.
    """
    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name):
        raise ValueError(
            f"{name!r} must have letters, digits and underscores, and begin with a letter"
        )
    directory = parent / name
    if directory.exists():
        raise ValueError(f"{directory} exists: choose another name")
    if importlib.util.find_spec(name) is not None:
        raise ValueError(f"there is a module {name} in Python: choose another name")
    contents = {
        "pipeline.py.txt": f"{name}.py",
        "test.py.txt": f"test_{name}.py",
        "README.md.txt": "README.md",
        "pytest.ini.txt": "pytest.ini",
    }
    directory.mkdir(parents=True)
    made = []
    for source, target in contents.items():
        text = (TEMPLATE / source).read_text(encoding="utf-8").replace(NAME_MARK, name)
        path = directory / target
        path.write_text(text, encoding="utf-8")
        made.append(path)
    return made
