"""Kills the workers of a standalone cluster of Spark (`python -m tests.spark.faults.machines`)."""
