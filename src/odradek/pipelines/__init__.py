"""Runs pipelines of Odradek and Spark, with a session, a broker, checkpoints and a clean end.

A pipeline is a module with a function `run(console, places, options)`. It may also have the
functions `add_arguments(parser)` and `check(options)`, for its own options. The six pipelines of the
directory `examples` are such modules, and users write their own.

- `catalogue` finds and loads pipelines.
- `runner` runs one: it starts Spark and, without the address of a broker, also a broker (`broker`).
- `places` is what a pipeline gets: the session, the broker's address, topics, checkpoints.
- `reports` has what is known of each micro-batch, and `listener` collects it from Spark.
- `runs` keeps a file for each run, which `odradek pipeline status` reads.
- `settings` has settings of Spark for runs on one machine.
"""
