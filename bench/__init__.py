"""Compares Odradek with Apache Kafka: `make bench`, or `python -m bench --help`.

Both brokers run at the same time and are warmed up. The same client measures them alternately. The
client is a Java program that runs during all rounds, so it stays warm (`java/Load.java`). Each
module in `measures/` is an experiment with a function `run(environment)`. docs/benchmarks.md
explains the figures.

The modules `*_micro.py` measure single parts of Odradek's code. Run them directly, for example
`python -m bench.log_micro`.
"""
