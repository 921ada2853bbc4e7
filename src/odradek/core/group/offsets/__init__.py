"""Offsets that groups commit.

`store` holds the offsets. `commit`, `fetch` and `deletion` process requests. `deletion` also
removes expired offsets. `quick_commits` is the fast path for the records of common commits.
"""
