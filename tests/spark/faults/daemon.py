"""PySpark's daemon of workers, with the modules that each worker needs imported before it forks.

Otherwise each worker imports them again, which takes more processor time than its work, and a run
has dozens of workers. PySpark does not do this because modules may start threads. These modules
start only a thread of Arrow's allocator, which is prepared for forks. Drivers set a variable that
keeps BLAS, which numpy loads, from starting others.
"""

from __future__ import annotations

import pyarrow.compute  # noqa: F401  (for the workers)
import pyspark.daemon
import pyspark.worker
from tests.spark.faults import source  # noqa: F401  (for the workers)

if __name__ == "__main__":
    pyspark.daemon.manager()
