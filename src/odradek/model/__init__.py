"""Identifiers, codes and value types that all packages share."""
