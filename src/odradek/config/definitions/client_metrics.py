"""Settings of a client metrics subscription (KIP-714)."""

SETTINGS = """
[honoured]
metrics  list  = ""  distinct  medium
    Prefixes of the metrics to push. An empty list means none, and `*` means all.
interval.ms  int  = 300000  medium
    How often clients push.
match  list  = ""  distinct  medium
    The clients that push metrics: client_id=PATTERN, client_software_name=PATTERN, ...
"""
