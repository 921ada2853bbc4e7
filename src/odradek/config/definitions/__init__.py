"""The settings by subject. `odradek.config.definition` explains the notation."""
