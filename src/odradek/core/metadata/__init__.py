"""The cluster's metadata: immutable images, and how records change them.

- `image`: `MetadataImage`, the metadata at one offset. Readers may keep an image for any time.
- `delta`: `MetadataDelta` collects the changes that records make to an image, and creates the next
  image. Its cost depends mainly on the number of changes.
- `batch_loader`: creates deltas and images from a committed log, including metadata transactions.
- `snapshot`: converts an image to the smallest set of records that creates the image.
- `record`: encodes records as values of the log.
- `versions`: the record versions that each finalized level of metadata.version allows.

Names and structure are similar to org.apache.kafka.image. The records have the same bytes as in
Apache Kafka.
"""
