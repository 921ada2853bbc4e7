"""Metrics by MBean, their names for Prometheus, log lines, and metrics that clients push.

Counters of the node are plain attributes of the objects that count. `odradek.node.metrics` reads them
when somebody reads the metrics (`registry`).
"""
