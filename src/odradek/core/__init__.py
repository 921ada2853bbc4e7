"""State machines that make all decisions of a node but perform no IO.

A state machine opens no socket or file. It gets the time and random numbers from objects that are
passed to its constructor, or as arguments of its methods. `make check` fails if `core` imports
time, random, socket, os or asyncio. An operation of a state machine is a method call (the quorum:
an event). It returns the actions that the caller must perform. A durable decision consists of
records and a response. Durable state is changed only by `replay` of the records.
"""
