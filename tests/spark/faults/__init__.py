"""Kills drivers, workers and brokers at named steps of exactly-once writes."""
