"""Connections to other nodes: TLS, SASL, and the API versions that both nodes serve."""
