"""Ratings of films become suggestions, in real time and overnight. See README.md."""
