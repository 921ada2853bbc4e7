"""Finds cycles between transactions: write order, and reads of written values."""

from __future__ import annotations

from collections.abc import Mapping

Graph = Mapping[int, set[int]]


def cycles(graph: Graph) -> list[list[int]]:
    """Return the strongly connected components with more than one node (Tarjan's algorithm)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    found: list[list[int]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        path.append(root)
        on_path.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    path.append(target)
                    on_path.add(target)
                    work.append((target, iter(graph.get(target, ()))))
                    break
                if target in on_path:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    place = path.index(node)
                    component = path[place:]
                    del path[place:]
                    on_path.difference_update(component)
                    if len(component) > 1:
                        found.append(component)
    return found


def united(some: Graph, more: Graph) -> dict[int, set[int]]:
    """Return the union of both sets of edges."""
    return {node: some.get(node, set()) | more.get(node, set()) for node in {*some, *more}}
