"""Leaves out of garbage collections what a Python worker of Spark has imported.

A worker collects garbage after each task (`pyspark.daemon`), and looks at all objects of all
imported modules each time. That was 4 to 5 % of the processor time of reads and writes of a second.
"""

from __future__ import annotations

import functools
import gc


@functools.cache
def leave_out_modules() -> None:
    """Leave out the objects that exist at the first call. Tasks call this when they begin."""
    gc.freeze()
