"""Reads records.

- `consumer` is the blocking consumer, and `options` are its settings.
- `state` is what does not wait, which consumers of other shells share.
"""
