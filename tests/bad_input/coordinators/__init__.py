"""Every field of every request to a coordinator with every value that it should not have."""
