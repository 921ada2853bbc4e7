"""Pipelines on real data. Each one is one command; its README says what it shows."""
