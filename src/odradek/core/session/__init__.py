"""State of fetch sessions (KIP-227)."""
