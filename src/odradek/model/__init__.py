"""Identifiers, error codes and value types that all packages use."""
