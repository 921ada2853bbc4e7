"""Reads records.

- `consumer` is the blocking consumer, and `options` are its settings.
- `to_ends` reads what is there, and no further.
- `state` is what does not wait, which consumers of other shells share.
"""
