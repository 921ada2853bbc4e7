"""What administrators ask and change: one file per subject, plain functions over a `Cluster`.

Functions about many things return a dictionary with, for each, its value or the error that took
its place; they raise only where the whole request fails.
"""
