"""Metrics of requests, log lines, and metrics that clients push.

Other counters of the node are plain attributes of the objects that count. `node/metrics.py` reads
all counters during a scrape.
"""
