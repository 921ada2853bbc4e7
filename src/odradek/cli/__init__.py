"""The command line: `odradek …`, a thin layer over the client and the node.

`main` is the entry point and the list of commands; each is imported when it is called, so that
`odradek serve` starts fast: at module level nothing heavier than click may be imported here
(rich comes with the first table, the client with the first connection). `options` has what
commands share, `output` prints tables, JSON and errors, `values` reads and writes times,
durations, sizes and positions in a log.

A command prints results to stdout and everything else to stderr; it ends with 0, or 1 when
something failed, 2 when it was called wrongly, 130 after Ctrl-C, 141 when its reader went away.
"""
