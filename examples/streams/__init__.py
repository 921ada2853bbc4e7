"""Applications of odradek.streams. See README.md."""
