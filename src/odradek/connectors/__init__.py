"""Odradek's own connectors. Each has the name and the configuration of the Java class it stands for.

- `file_source`, `file_sink`: lines of a file (Kafka's FileStream connectors)
- `datagen`: random records for tests and tutorials
"""

from odradek.connectors.datagen import DatagenConnector
from odradek.connectors.file_sink import FileStreamSinkConnector
from odradek.connectors.file_source import FileStreamSourceConnector

OWN = (FileStreamSourceConnector, FileStreamSinkConnector, DatagenConnector)
"""The classes of all connectors of this package."""

__all__ = ["OWN", "DatagenConnector", "FileStreamSinkConnector", "FileStreamSourceConnector"]
