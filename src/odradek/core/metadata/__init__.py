"""The cluster's metadata: what it is, and how records change it.

`image` holds it, immutable; readers keep a reference as long as they like. A `MetadataDelta`
(`delta`) gathers what records change over an image, tells readers what that was, and makes the
next image; its cost follows what changed. `batch_loader` does this for a committed log, with its
metadata transactions; `snapshot` writes an image as the fewest records that make it. `record`
frames records as values of the log, `versions` says which record versions a finalized
metadata.version allows.

Names and shapes follow org.apache.kafka.image; the bytes are Apache Kafka's.
"""
