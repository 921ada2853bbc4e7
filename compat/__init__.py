"""Tests with unmodified Kafka clients: `make compat`, or `python -m compat --help`.

`lab/` starts brokers and programs. `drivers/` has one driver per client, in the client's language;
all drivers use the same JSON protocol. `scenarios/` has the tests, which every client runs through
its driver. `tools/` runs Apache Kafka's command-line tools and checks their output.
docs/compatibility.md explains the result.
"""
