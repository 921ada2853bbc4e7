"""Drivers for clients in Python, each a separate program: `python -m compat.drivers.python.X`."""
