"""Java's regular expressions: the dialect of java.util.regex, for settings that are written in it.

    compile_pattern(r"CN=([a-z&&[^k]]+),.*").replace_all("CN=sr,OU=a", "$1")

`parser` reads the text into `nodes`, `program` makes instructions of them, and `machine` executes
these. `pattern` has the functions for users, and Java's replacement syntax. `characters` has the
classes of characters. Nothing here performs IO, and a match takes a limited number of steps.
See docs/java-regex.md for what is refused, and docs/decisions/java-regex-machine.md for the reasons.
"""
