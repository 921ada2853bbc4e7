"""The pytest plugin: fixtures that start a broker (registered by the package's entry point)."""
