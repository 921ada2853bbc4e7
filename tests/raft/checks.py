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

    def require(self, holds, problem):
        if not holds:
            raise self._cluster.violation(problem)

    def on_leader(self, node, epoch):
        self.require(
            self.leaders.setdefault(epoch, node.id) == node.id,
            f"epoch {epoch} has the leaders {self.leaders[epoch]} and {node.id}",
        )
        earlier = [each for each in self.committed if each.epoch < epoch]
        has = node.log.prefix(len(earlier))
        self.require(list(has) == earlier, f"the new leader {node.id} lacks what was committed")

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
