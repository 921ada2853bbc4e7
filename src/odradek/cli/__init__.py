"""The command `odradek` and its subcommands, which use the client and the node.

`main` is the entry point and has the list of commands. `odradek serve` starts fast, because the
module of a command is imported only when the command is called, and the package rich only when a
table is printed. `options` has the options that commands share. `output` prints tables, JSON and
errors. `values` parses and formats times, durations, sizes and positions in a log.

A command prints results to stdout and everything else to stderr. Its exit code is 0 for success, 1
for a failure, 2 for wrong usage, 130 after Ctrl-C, and 141 if the reader of stdout has closed it.
"""
