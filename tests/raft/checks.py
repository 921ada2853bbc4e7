"""The rules that every history of a simulated quorum must keep."""


class Violation(AssertionError):
    """The cluster has broken a rule."""


class Checks:
    """Checks the rules after each step of a history."""

    def __init__(self, cluster):
        self._cluster = cluster
        self.leaders = {}
        self.committed = []
        """The entries that any node has reported as committed."""
        self.commit_epochs = []
        """For each committed entry: the epoch of the node that was the first to report it."""

    def require(self, holds, problem):
        if not holds:
            raise self._cluster.violation(problem)

    def on_leader(self, node, epoch):
        self.require(
            self.leaders.setdefault(epoch, node.id) == node.id,
            f"epoch {epoch} has the leaders {self.leaders[epoch]} and {node.id}",
        )
        # A paused candidate may learn that it has won when a later leader has already committed
        # entries of an earlier epoch. It lacks these entries, and cannot commit anything.
        earlier = sum(each < epoch for each in self.commit_epochs)
        has = list(node.log.prefix(earlier))
        self.require(
            has == self.committed[:earlier], f"the new leader {node.id} lacks what was committed"
        )

    def on_commit(self, node, offset):
        self.require(offset > node.committed, f"the high watermark of {node.id} goes back")
        self.require(offset <= node.log.end_offset, f"node {node.id} commits what it does not have")
        entries = node.log.prefix(offset)
        common = min(len(entries), len(self.committed))
        for index in range(max(0, node.committed), common):
            self.require(
                entries[index] == self.committed[index],
                f"node {node.id} commits {entries[index]} at {index}, not {self.committed[index]}",
            )
        self.committed += entries[common:]
        self.commit_epochs += [node.machine.epoch] * (len(entries) - common)
