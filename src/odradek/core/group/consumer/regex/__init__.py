"""Regular expressions of subscriptions, with RE2's syntax and guarantees.

Apache Kafka matches topics with RE2/J: it does not backtrack, so the time is bounded. Python's `re`
backtracks. So a pattern is parsed here (`parser`, `classes`) and translated to a nondeterministic
automaton (`program`). The automaton follows all paths at the same time and caches the sets of
states (`automaton`).

Topic names are ASCII, so a character class is a number of 128 bits.
"""

from odradek.core.group.consumer.regex.automaton import CostlyRegex, Regex
from odradek.core.group.consumer.regex.parser import InvalidRegex

__all__ = ["CostlyRegex", "InvalidRegex", "Regex"]
