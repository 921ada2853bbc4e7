"""Regular expressions of subscriptions, with RE2's syntax and guarantees.

Apache Kafka matches topics with RE2/J: no backtracking, hence no pattern that takes ages. Python's
own `re` backtracks. So a pattern is parsed here (`parser`, `classes`), translated to a
nondeterministic automaton (`program`), and that is run on all paths at once (`automaton`), with the
sets of states remembered.

Topics have names of ASCII, and so a character class is a number of 128 bits.
"""

from odradek.core.group.consumer.regex.automaton import CostlyRegex, Regex
from odradek.core.group.consumer.regex.parser import InvalidRegex

__all__ = ["CostlyRegex", "InvalidRegex", "Regex"]
