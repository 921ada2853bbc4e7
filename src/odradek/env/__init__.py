"""Interfaces to the operating system: clock, randomness, files, network, threads, processes.

Most interfaces are small `Protocol`s. The same module has the real implementation, and
`odradek.sim` has the simulated implementation. An object gets the interfaces that it needs as
arguments of its constructor.
"""
