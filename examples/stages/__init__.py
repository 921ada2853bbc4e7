"""Flights go through topics in stages: raw, enriched, by day. See README.md."""
