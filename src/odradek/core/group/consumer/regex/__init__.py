"""Regular expressions of subscriptions, with the syntax and the guarantees of RE2.

Apache Kafka matches topics with RE2/J, which does not backtrack. So the time for a match is
bounded. Python's `re` backtracks. So this package parses the pattern (`parser`, `classes`) and
converts it to a nondeterministic automaton (`program`). The matcher follows all paths of the
automaton at the same time, and caches the sets of states (`automaton`).

Topic names are ASCII, so a character class is a number of 128 bits.
"""

from odradek.core.group.consumer.regex.automaton import CostlyRegex, Regex
from odradek.core.group.consumer.regex.parser import InvalidRegex

__all__ = ["CostlyRegex", "InvalidRegex", "Regex"]
