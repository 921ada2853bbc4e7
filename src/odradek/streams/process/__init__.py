"""Runs an application as a process: a member of a consumer group that shares the tasks.

- `layout` decides which internal topics there are, and which partitions belong to which task.
- `worker` consumes, lets tasks process, produces and commits, all in one thread.
- `restoring` reads changelogs into stores; `positions` are offsets with what is committed beside them.
"""
