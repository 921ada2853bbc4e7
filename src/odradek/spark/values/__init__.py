"""Converts keys and values between bytes in topics and typed columns: JSON, Avro and Protobuf.

`settings` has the options. `formats` finds the schema of a column and makes its decoder or encoder.
A decoder converts the byte strings of a batch at once, and says which of them cannot be decoded and
why (`bulk`). `avro_schema` and `protobuf_schema` map types to those of Spark, `avro` and `protobuf`
convert, `decimals` converts unscaled numbers. With a schema registry (`registry`) each byte string
begins with the id of its schema (`framing`).
"""
