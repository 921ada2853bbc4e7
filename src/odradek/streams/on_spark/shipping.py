"""Brings an application from the driver to Spark's workers.

Functions of the program's file are pickled with their code, because workers cannot import the file.
Modules that the file imports are imported there, with the paths of the driver.
"""

from __future__ import annotations

import copyreg
import pickle
import secrets
import struct
import sys
import uuid
from typing import Any, NamedTuple

import pyspark.cloudpickle

from odradek.core.streams.topology.definition import Topology
from odradek.streams.process.program import MODULE
from odradek.streams.process.settings import WorkerSettings

cloudpickle: Any = pyspark.cloudpickle  # without types


class Shipped(NamedTuple):
    """An application as bytes."""

    run_id: str
    """Differs in each run, so that workers forget the tasks of an earlier one."""
    secret: bytes
    """Known by the workers of the run only."""
    paths: tuple[str, ...]
    data: bytes

    def unpack(self) -> tuple[Topology, WorkerSettings]:
        """Return the application. This is called in a worker."""
        sys.path.extend(path for path in self.paths if path not in sys.path)
        found: tuple[Topology, WorkerSettings] = pickle.loads(self.data)  # noqa: S301
        return found


def pack(topology: Topology, settings: WorkerSettings) -> Shipped:
    """Return an application as bytes.

    Raises:
        TypeError: the program has something that cannot be pickled.
    """
    copyreg.pickle(struct.Struct, _reduced)  # serdes have them
    module = sys.modules.get(MODULE)
    if module is not None:
        cloudpickle.register_pickle_by_value(module)
    try:
        data = cloudpickle.dumps((topology, settings))
    finally:
        if module is not None:
            cloudpickle.unregister_pickle_by_value(module)
    return Shipped(uuid.uuid4().hex, secrets.token_bytes(32), tuple(sys.path), data)


def _reduced(made: struct.Struct) -> tuple[type[struct.Struct], tuple[str]]:
    return struct.Struct, (made.format,)
