"""The consumer that is a member of a classic group."""
