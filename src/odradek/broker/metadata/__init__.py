"""The committed metadata of a node.

An image is an immutable snapshot of the metadata. A publisher is a part of the node that applies
metadata changes (Kafka's MetadataPublisher).

- `loader` reads the committed records of the metadata log and publishes each new image.
- `publisher` calls all publishers.
- `cache` holds the newest image for handlers; `listener_view` shows it to clients of one listener.
- `supported_versions` is what ApiVersions tells of this software.
- `snapshot_generator` writes snapshots of the metadata.
"""
