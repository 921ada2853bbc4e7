"""Odradek's own connectors. Each has the name and the configuration of the Java class it stands for.

- `file_source`, `file_sink`: lines of a file (Kafka's FileStream connectors)
- `datagen`: random records for tests and tutorials
- `mirror`: topics of another cluster (MirrorMaker 2)

`own` has all of them. This package imports only the small ones, because the process of a task does, too.
"""

from odradek.connectors.datagen import DatagenConnector
from odradek.connectors.file_sink import FileStreamSinkConnector
from odradek.connectors.file_source import FileStreamSourceConnector

__all__ = ["DatagenConnector", "FileStreamSinkConnector", "FileStreamSourceConnector"]
