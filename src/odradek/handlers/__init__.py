"""The APIs, one file per key; see `handler`."""
