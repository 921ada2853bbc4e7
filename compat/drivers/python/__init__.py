"""Drivers for clients in Python, each a program of its own: `python -m compat.drivers.python.X`."""
