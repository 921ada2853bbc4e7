"""Other people's clients against a node: `make compat`, or `python -m compat --help`.

`lab/` starts brokers and programs; `drivers/` holds one driver per client, each in its client's
own language, all speaking the same lines of JSON; `scenarios/` says what every client must be able
to do and asks the drivers to do it; `tools/` runs Apache Kafka's own command-line tools and reads
what they print. How to read the result: docs/compatibility.md.
"""
