"""Performs the decisions of the state machines in `core`."""
