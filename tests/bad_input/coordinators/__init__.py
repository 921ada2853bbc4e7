"""Requests to coordinators, with each field set to invalid values."""
