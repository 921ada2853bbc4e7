"""Numbers about the node: counted where things happen, collected on a scrape.

A counter is a plain attribute that its owner increments; `Histogram` is the one class that the
hot path touches. Exporters (`node/metrics.py`) read them all on a scrape, so what nobody reads
costs an addition.
"""
