"""Interfaces to the operating system: clock, randomness, files, network, threads, processes.

Each interface is a small `Protocol` next to its real implementation; `odradek.sim` has simulated
ones. Pass an interface to an object's constructor and bind the methods that it needs once: nothing
here is looked up per request.
"""
