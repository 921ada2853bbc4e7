"""A long test: its command, and how much it does at full size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

QUICK_PART = 50
"""`--quick` divides the count by this number. Use it to try a long test."""


@dataclass(frozen=True)
class LongTest:
    """One command. It has passed if its exit code is 0."""

    name: str
    what: str
    """Description of what is counted."""
    count: int
    command: tuple[str, ...]
    variable: str | None = None
    """The environment variable with the count; None if the count is a command-line argument, or if
    nothing is counted."""
    divisor: int = 1
    """The value of the variable is the count divided by this number. Use it if the command counts
    separately for each of several clients."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Other environment variables."""
    has_count_argument: bool = False
    """Whether the count is the last command-line argument."""
    quick_arguments: tuple[str, ...] = ()
    """Further command-line arguments for `--quick`."""
    concerns: tuple[str, ...] = ()
    """The files and directories that decide what the test proves, and those of the test itself. If more
    than ten commits touch them, a new result is due (`bench.proofs.freshness`). The list is narrow: the
    check runs most of these tests with each commit, with a smaller count. It is empty if the check runs
    the whole test, and for benchmarks, whose results are judged by people."""

    def size(self, *, quick: bool) -> int:
        """Return the count of one run."""
        if not quick or (self.variable is None and not self.has_count_argument):
            return self.count
        return self.divisor * max(2, self.count // self.divisor // QUICK_PART)

    def full_command(self, *, quick: bool) -> list[str]:
        """Return the command with all arguments."""
        count = (str(self.size(quick=quick)),) if self.has_count_argument else ()
        return [*self.command, *count, *(self.quick_arguments if quick else ())]

    def text(self, count: int) -> str:
        """Return the description with the count, for example `50 kills of the node under load`."""
        number = f"{count:,}".replace(",", " ")
        return self.what if count == 1 else f"{number} {self.what}"

    def environment(self, *, quick: bool) -> dict[str, str]:
        """Return the environment variables that the command gets in addition."""
        if self.variable is None:
            return dict(self.extra)
        return {**self.extra, self.variable: str(self.size(quick=quick) // self.divisor)}
