"""Client telemetry (KIP-714): which metrics each client must push, and how often."""
