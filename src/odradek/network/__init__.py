"""Sockets: listeners, connections, back-pressure."""
