"""Settings of a client metrics subscription (KIP-714)."""

SETTINGS = """
[honoured]
metrics  list  = ""  distinct  medium
    Prefixes of the metrics to push; empty: none, `*`: all.
interval.ms  int  = 300000  medium
    How often clients push.
match  list  = ""  distinct  medium
    Which clients: client_id=PATTERN, client_software_name=PATTERN, ...
"""
