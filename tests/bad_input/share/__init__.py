"""Invalid requests of the share APIs: each field with each invalid value, and whole sequences."""
