"""Requests to the coordinators, with each field replaced by each invalid value."""
