"""The parts of a broker and of a controller: they execute what the state machines in `core` decide.

The state machines perform no IO. The modules of this package read and write logs, wait for timers,
and send responses.
"""
