"""The cluster's metadata: immutable images, and how records change them.

`image` has the `MetadataImage`; readers may keep one as long as they like. A `MetadataDelta`
(`delta`) collects the changes of records over an image, lists what changed, and makes the next
image; its cost depends on what changed. `batch_loader` does this for a committed log with metadata
transactions; `snapshot` writes an image as the fewest records that make it. `record` frames
records as values of the log, and `versions` says which record versions a finalized
metadata.version allows.

Names and shapes follow org.apache.kafka.image; the bytes are Apache Kafka's.
"""
