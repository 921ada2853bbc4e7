"""The settings by subject; the notation is explained in `odradek.config.definition`."""
