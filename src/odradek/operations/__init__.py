"""What the commands and other tools for people decide about a cluster, without a terminal.

Facts come from the client, and plans and problems are plain values. Nothing here prints, asks or
knows click, rich or HTML: the commands in `odradek.cli` show what these modules return.
"""
