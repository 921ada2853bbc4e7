"""Follows log files while they grow, are renamed, copied, compressed, truncated and deleted.

A `Log` is what a program writes one after the other: it keeps its name and its generation when its
file is renamed, or is replaced by a copy. `files` reads them, `finding` finds out which file is which
log, `copies` keeps what was read, and `follower` writes the lines to a topic.
"""
