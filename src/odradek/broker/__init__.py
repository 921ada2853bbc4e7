"""The shells that perform what the machines of `core` decide."""
