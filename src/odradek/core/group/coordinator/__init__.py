"""The machine of a group coordinator: all kinds of groups of one partition, behind one class."""
