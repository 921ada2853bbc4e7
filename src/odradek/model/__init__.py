"""Ids and numbers with meaning; no behaviour beyond their own form."""
