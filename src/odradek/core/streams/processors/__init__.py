"""The operators of the DSL: each has a definition in the topology, and a node in each task."""
