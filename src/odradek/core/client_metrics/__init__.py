"""Client telemetry (KIP-714): who should push which metrics, and how often."""
