"""`python -m tests.oracle.release record|document`."""

from __future__ import annotations

import sys

from tests.oracle.release import comparison, deviations

if sys.argv[1:] == ["record"]:
    comparison.record()
elif sys.argv[1:] == ["document"]:
    text = deviations.DOCUMENT.read_text(encoding="utf-8")
    deviations.DOCUMENT.write_text(deviations.written(text), encoding="utf-8")
else:
    sys.exit(__doc__)
