"""Settings that change while a node runs: dynamic configurations, and the levels of loggers."""
