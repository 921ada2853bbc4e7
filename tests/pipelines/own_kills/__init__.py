"""Runs each pipeline on own data, kills it twice with SIGKILL, and compares with DuckDB's answer."""
