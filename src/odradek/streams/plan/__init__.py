"""Turns the calls of a program into nodes of the logical graph.

The names are those of Kafka Streams, and the numbers too: the order of the calls of `GraphBuilder` in
these modules is the order in which Kafka Streams uses its counter.
"""
