"""Topologies as data, and their text."""
