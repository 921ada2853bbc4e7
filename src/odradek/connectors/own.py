"""The classes of all connectors of this package, for workers."""

from odradek.connectors.datagen import DatagenConnector
from odradek.connectors.file_sink import FileStreamSinkConnector
from odradek.connectors.file_source import FileStreamSourceConnector
from odradek.connectors.mirror import (
    MirrorCheckpointConnector,
    MirrorHeartbeatConnector,
    MirrorSourceConnector,
)

OWN = (
    FileStreamSourceConnector,
    FileStreamSinkConnector,
    DatagenConnector,
    MirrorSourceConnector,
    MirrorCheckpointConnector,
    MirrorHeartbeatConnector,
)
