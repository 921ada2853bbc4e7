"""Listeners and connections: receive requests, send responses, and limit the memory for both."""
