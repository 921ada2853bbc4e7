"""Machines that decide and never act: no IO, no clock, no randomness of their own.

What a machine needs of the world comes in as an argument, what it wants done goes out as a
value. A durable decision is records plus a response; only `replay` changes state.
"""
