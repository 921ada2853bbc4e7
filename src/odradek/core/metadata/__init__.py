"""The cluster's metadata: immutable images, and how records change them.

`image` has the `MetadataImage`; readers may keep one as long as they like. A `MetadataDelta`
(`delta`) collects the changes of records over an image, lists the changes, and creates the next
image; its cost depends on the number of changes. `batch_loader` does this for a committed log with
metadata transactions; `snapshot` converts an image to the smallest set of records that creates it.
`record` encodes records as values of the log, and `versions` says which record versions a finalized
metadata.version allows.

Names and shapes follow org.apache.kafka.image; the bytes are Apache Kafka's.
"""
