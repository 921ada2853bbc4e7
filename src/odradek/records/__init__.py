"""Record batches: the unit in which records travel and are stored.

A broker handles batches as bytes. For each batch from a producer, the broker does these steps:

1. It reads the header of 61 bytes (`batch`).
2. It checks the CRC-32C (`checksum`), and that the payload consists of valid records (`structure`).
3. It sets base offset and leader epoch, which the CRC does not cover.
4. It writes the batch. The other bytes usually stay unchanged. `odradek.log.validation` changes
   them, for example, if the topic has LogAppendTime or another codec.

Records are decoded (`record`) only if their content is needed. Only clients and coordinators encode
records (`builder`). In a wheel, these modules are compiled (docs/decisions/compiled-modules.md).
The type `i64` makes compiled code faster; in interpreted code, it has no effect.

- `batch`: `RecordBatch` is a view of one batch in a buffer. `iterate_batches` yields the batches of
  a buffer.
- `record`: `iterate_records` yields `Record`s. It decompresses piece by piece, so that the memory
  depends on the largest record and not on the size that a batch claims.
- `structure`: checks that a batch holds as many records as its header says, without creating record
  objects. Interpreted code compares records of the same layout with `columns`.
- `skim`: checks unusual batches and reports what is wrong.
- `varint`: variable-length integers.
- `builder`: `RecordBatchBuilder` encodes a batch. The same input always gives the same bytes.
- `compression`: the compression codecs. Their libraries are loaded at first use.
- `control`: control records, which are end-of-transaction markers and KRaft's control records.
- `legacy`: message formats 0 and 1 in old data directories.

Sources: Apache Kafka's message format (KIP-98, KIP-82), `DefaultRecordBatch`, `DefaultRecord`.
"""
