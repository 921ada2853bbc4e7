"""Side by side with Apache Kafka: `make bench`, or `python -m bench --help`.

Both brokers run at the same time, are warmed up, and are measured in turns by the same client, a
Java program that stays warm over all rounds (`java/Load.java`). Each file below `measures/` is one
experiment with a function `run(environment)`. What the figures mean: docs/benchmarks.md.

The files `*_micro.py` here measure single parts of our own code; run them by their own names.
"""
