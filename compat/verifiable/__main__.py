"""`python -m compat.verifiable PROGRAM ARGUMENTS`."""

from __future__ import annotations

import sys
from importlib import import_module

PROGRAMS = ("producer", "consumer", "share-consumer", "copier")


def main() -> int:
    """Run the program that the first word names."""
    if len(sys.argv) < 2 or sys.argv[1] not in PROGRAMS:
        print(f"usage: python -m compat.verifiable {'|'.join(PROGRAMS)} …", file=sys.stderr)
        return 2
    module = import_module(f"compat.verifiable.{sys.argv[1].replace('-', '_')}")
    found: int = module.main(sys.argv[2:])
    return found


if __name__ == "__main__":
    sys.exit(main())
