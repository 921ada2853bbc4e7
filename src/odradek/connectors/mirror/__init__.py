"""Kafka to Kafka in the shape of MirrorMaker 2: three connectors with the names of Java's.

- `source` copies records, and makes the topics at the target. `source_task` is its task.
- `checkpoint` translates the offsets of groups. `heartbeat` writes a record now and then.

These modules decide and perform no IO: `policies` (the names of topics), `filters` (what is copied),
`formats` (the bytes of records), `offset_syncs` (the translation), `checkpoints`, `topics`, `offsets`.
"""

from odradek.connectors.mirror.checkpoint import MirrorCheckpointConnector
from odradek.connectors.mirror.heartbeat import MirrorHeartbeatConnector
from odradek.connectors.mirror.source import MirrorSourceConnector

__all__ = ["MirrorCheckpointConnector", "MirrorHeartbeatConnector", "MirrorSourceConnector"]
