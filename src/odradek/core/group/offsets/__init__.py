"""Offsets that groups commit: `store` holds them, `commit`, `fetch`, `deletion` and `expiry`
decide."""
