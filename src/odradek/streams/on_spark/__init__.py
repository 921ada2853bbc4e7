"""Runs an application on Spark: one streaming query, in which each Spark task runs one Streams task.

- `runner`, in the driver: starts the query. For each micro-batch it lets Spark run the tasks.
- `source`, in Spark's planning process: says up to where each task has to read.
- `tasks`, in Spark's workers: reads, processes, and commits in a transaction of the task.
- `shipping` brings the application to the workers.

All subtopologies are in the same query, and read repartition topics as they read other topics. So what
a task writes to a repartition topic is processed in a later micro-batch.

Nothing that matters is in Spark's checkpoint. Where a task begins, the committed offsets of the
application's group say, which are in the task's transaction. Therefore a micro-batch that Spark repeats
does nothing, and a process of the application (`streams.process`, or Kafka Streams) can go on where the
query has ended, and the other way round.
"""
