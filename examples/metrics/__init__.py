"""Metrics of this machine and of the broker: windows and alerts, exactly once. See README.md."""
