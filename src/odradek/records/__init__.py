"""Record batches: the unit in which records travel and are stored.

A broker moves batches as bytes: it reads the 61 bytes of the header (`batch`), checks the CRC-32C
(`checksum`) and that the payload consists of valid records (`structure`), patches base offset and
leader epoch, which the CRC does not cover, and writes the bytes unchanged otherwise. Records are
decoded (`record`) only where their content is needed, and encoded (`builder`) only by clients and
coordinators. A wheel has these modules compiled (docs/decisions/compiled-modules.md); types such as
`i64` only serve the compiler.

- `batch`: `RecordBatch`, a view of one batch in a buffer; `iterate_batches`.
- `record`: `Record`; `iterate_records` decompresses piece by piece, so that a batch that claims
  to be enormous costs no more memory than its largest record.
- `structure`: checks that a batch holds as many records as its header says, without creating any.
  Interpreted, it compares records of the same layout by `columns` of bytes. `skim` reports what is
  wrong with a batch.
- `varint`: variable-length integers.
- `builder`: `RecordBatchBuilder` encodes a batch; the same input always gives the same bytes.
- `compression`: the five codecs, with levels and limits; their libraries are loaded at first use.
- `control`: control records: end-of-transaction markers, and those of KRaft.
- `legacy`: message formats 0 and 1, still readable in old data directories.

Sources: Apache Kafka's message format (KIP-98, KIP-82), `DefaultRecordBatch`, `DefaultRecord`.
"""
