"""Settings of Spark for pipelines."""

from __future__ import annotations

from odradek.spark.distribution import is_local

_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing"
LOCAL_FILES = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_CHECKPOINTS}.FileSystemBasedCheckpointFileManager"
    ),
}
"""By default Spark writes a second file with checksums for each local file, and starts a program
(`readlink`, `chmod`) for each change of a checkpoint file. This is an eighth of the demo's processor
time."""
CONF = {
    **LOCAL_FILES,
    "spark.python.authenticate.socketTimeout": "120s",  # a worker on a busy machine starts slowly
    "spark.sql.shuffle.partitions": "2",
}
"""For data of a size that one machine processes in minutes."""
CLUSTER_CONF = {"spark.stage.maxConsecutiveAttempts": "1"}
"""Exactly-once writes by tasks need this setting on a cluster (`odradek.spark.by_partition`)."""


def conf_for(master: str | None, *, is_small: bool) -> dict[str, str]:
    """Return the settings of a session. `is_small` is for data that fit one machine."""
    if master is not None and not is_local(master):
        return dict(CLUSTER_CONF)
    return dict(CONF if is_small else LOCAL_FILES)
