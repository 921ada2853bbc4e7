"""Leaves out of garbage collections what a Python process of Spark has imported.

Such a process collects garbage after each task, and after each query that it plans
(`pyspark.daemon`), and looks at all objects of all imported modules each time. In reads and writes of
a second, this was 4 to 5 % of the processor time.
"""

from __future__ import annotations

import functools
import gc


@functools.cache
def leave_out_modules() -> None:
    """Leave out the objects that exist at the first call. Each method that Spark calls first in a
    process calls this."""
    gc.freeze()
