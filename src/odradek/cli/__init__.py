"""The command `odradek` and its subcommands, which use the client and the node.

`main` is the entry point and has the list of commands. The module of a command is imported when the
command is called, and rich when the first table is printed, so that `odradek serve` starts fast.
`options` has the options that commands share. `output` prints tables, JSON and errors. `values`
parses and formats times, durations, sizes and positions in a log.

A command prints results to stdout and everything else to stderr. Its exit code is 0 for success, 1
for a failure, 2 for wrong usage, 130 after Ctrl-C, and 141 if the reader of stdout has closed it.
"""
