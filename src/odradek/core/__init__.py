"""State machines that make all decisions of a node but perform no IO.

A state machine has no clock and no source of random numbers of its own. The caller passes both as
arguments. A state machine returns the actions that the caller must perform. A durable decision
consists of records and a response. The replay of the records changes the durable state.
"""
