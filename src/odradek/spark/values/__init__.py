"""Converts keys and values between bytes in topics and typed columns: JSON, Avro and Protobuf.

`settings` has the options. `formats` finds the schema of a column, and makes its decoder or encoder
(`avro_format`, `protobuf_format`). A decoder converts the byte strings of a batch at once, and says
which of them cannot be decoded and why (`bulk`). `avro` and `protobuf` let a library convert each
byte string. `avro_shapes` and `protobuf_shapes` convert whole columns to the types of Spark and back,
with `decimals`. `avro_schema` and `protobuf_schema` read schemas. With a schema registry
(`registry`) each byte string begins with the id of its schema (`framing`).
"""
