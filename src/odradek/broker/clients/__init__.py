"""What a broker knows of the client of a request: the context, quotas, and pushed metrics."""
