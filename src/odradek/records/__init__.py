"""Record batches: the unit in which records travel and are stored.

A broker moves batches as bytes: it reads the 61 bytes of the header (`batch`), checks the CRC-32C
(`checksum`) and that the rest is made of records (`structure`), patches base offset and leader
epoch, which the CRC does not cover, and writes the bytes as they came. Records are decoded
(`record`) only where their content is needed, and encoded (`builder`) only by clients and
coordinators. A wheel has these modules compiled (docs/decisions/compiled-modules.md); types such
as `i64` are for the compiler.

- `batch`: `RecordBatch`, a view of one batch in a buffer; `iterate_batches`.
- `record`: `Record`; `iterate_records` decompresses piece by piece, so that a batch that claims
  to be enormous costs no more memory than its largest record.
- `structure`: whether a batch holds the records it counts, without creating any. Interpreted, it
  compares records of one shape by `columns` of bytes. `skim` says what is wrong with a batch.
- `varint`: the integers of variable length.
- `builder`: `RecordBatchBuilder` makes the bytes of a batch; the same input, the same bytes.
- `compression`: the five codecs, with levels and limits; libraries load at first use.
- `control`: control records: ends of transactions, and those of KRaft.
- `legacy`: message formats 0 and 1, still readable in old data directories.

Sources: Apache Kafka's message format (KIP-98, KIP-82), `DefaultRecordBatch`, `DefaultRecord`.
"""
