"""The command line: `odradek …`, a thin layer over the client and the node.

`main` is the entry point and the list of commands. Each command is imported when it is called, so
that `odradek serve` starts fast: modules here import nothing heavier than click at module level
(rich is imported for the first table, the client for the first connection). `options` has options
that commands share, `output` prints tables, JSON and errors, `values` reads and writes times,
durations, sizes and positions in a log.

A command prints results to stdout and everything else to stderr. Its exit code is 0 for success, 1
for a failure, 2 for wrong usage, 130 after Ctrl-C, and 141 if the reader of stdout has closed it.
"""
