"""Metrics of the node: counted where events happen, collected on a scrape.

A counter is a plain attribute that its owner increments; `RequestMetrics` is the only class that
the hot path uses. The exporter (`node/metrics.py`) reads all of them on a scrape.
"""
