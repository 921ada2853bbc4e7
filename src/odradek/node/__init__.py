"""The composition root: the only place that wires the real parts of a node together."""
