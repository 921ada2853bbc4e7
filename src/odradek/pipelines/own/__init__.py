"""A person's own data in a pipeline: files, the standard input, or a topic that exists.

- `fields` says which columns a pipeline needs, and `options` which columns of the data they are.
- `formats` finds the format of a file, and `rows` reads its rows for the topic.
- `source` and `topic` say where the rows are from: files, or a topic that exists.
- `shipping` writes the rows to a topic, each once, even if the process is killed.
- `stream` has the functions of the stream: from records to typed columns.
- `given` lets DuckDB read the same data, for the check. It shares no code with `stream`.
"""
