"""Fetch sessions (KIP-227)."""
