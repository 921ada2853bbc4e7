"""The topology as a picture: an SVG with a frame for each subtopology, from the top to the bottom.

In a frame, each operator stands in the row below its last parent. Topics stand in rows above and below
it, and stores beside the operators that use them. A line of each frame says how its nodes are run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from xml.sax.saxutils import escape

from odradek.core.streams.topology.definition import (
    NodeDefinition,
    ProcessorDefinition,
    SinkDefinition,
    SourceDefinition,
    Topology,
)

LETTER = 6.7
"""The width of a letter."""
HEIGHT, ROW, GAP, MARGIN = 26.0, 56.0, 24.0, 20.0
FRAME_TOP = 44.0
INK, QUIET, PAPER = "#22223b", "#6c6f85", "#fbfaf7"
FILLS = {"topic": "#cfe3ee", "operator": "#ffffff", "store": "#f6dfc0"}
NO_TASKS = "read whole by each process (no tasks)"


class _Box(NamedTuple):
    """A topic, an operator or a store. `x` is its middle, `y` its top."""

    kind: str
    label: str
    x: float
    y: float

    @property
    def width(self) -> float:
        return len(self.label) * LETTER + 18


class _Frame(NamedTuple):
    """The picture of a subtopology, beginning at 0, 0."""

    boxes: dict[str, _Box]
    lines: list[tuple[str, str]]
    width: float
    height: float


def picture(topology: Topology) -> str:
    """Return the SVG of a topology."""
    parts: list[str] = []
    top, width = MARGIN, 0.0
    for number, names in enumerate(topology.groups()):
        frame = _frame(topology, names)
        title = f"Sub-topology {number}: {_how_it_runs(topology, names)}"
        inner = max(frame.width, len(title) * LETTER + 24)
        parts.append(_drawn(frame, title, inner, top))
        width = max(width, inner)
        top += frame.height + FRAME_TOP + MARGIN
    size = f"{width + 2 * MARGIN:.0f}", f"{top:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
        f'viewBox="0 0 {size[0]} {size[1]}" font-family="monospace" font-size="11">\n'
        f"<title>{escape(topology.application_id)}</title>\n"
        f'<rect width="100%" height="100%" fill="{PAPER}"/>\n' + "".join(parts) + "</svg>\n"
    )


def _how_it_runs(topology: Topology, names: list[str]) -> str:
    if topology.is_global(names):
        return NO_TASKS
    topics = [
        topology.full_name(topic)
        for name in names
        if isinstance(node := topology.nodes[name], SourceDefinition)
        for topic in node.topics
    ]
    return f"a task, in Python, for each partition of {', '.join(dict.fromkeys(topics))}"


def _frame(topology: Topology, names: list[str]) -> _Frame:
    """Place the nodes, topics and stores of a subtopology."""
    rows: dict[int, list[tuple[str, str, str]]] = {}
    depths: dict[str, int] = {}
    lines: list[tuple[str, str]] = []
    placed: set[str] = set()

    def place(row: int, kind: str, key: str, label: str) -> None:
        if key not in placed:
            placed.add(key)
            rows.setdefault(row, []).append((kind, key, label))

    for name in names:
        node = topology.nodes[name]
        depth = depths[name] = max((depths[each] + 1 for each in node.parents), default=1)
        place(depth, "operator", name, name)
        lines += [(parent, name) for parent in node.parents]
        for topic in _read_by(topology, node):
            place(0, "topic", f"from {topic}", topic)
            lines.append((f"from {topic}", name))
        for topic in _written_by(topology, node):
            place(depth + 1, "topic", f"to {topic}", topic)
            lines.append((name, f"to {topic}"))
        if isinstance(node, ProcessorDefinition):
            for store in node.stores:
                place(depth, "store", f"store {store}", store)
                lines.append((name, f"store {store}"))
    return _laid_out(rows, lines)


def _laid_out(rows: dict[int, list[tuple[str, str, str]]], lines: list[tuple[str, str]]) -> _Frame:
    """Give each row its place, in the middle of the widest one."""
    widths = {
        row: sum(_Box(kind, label, 0, 0).width + GAP for kind, _, label in entries) - GAP
        for row, entries in rows.items()
    }
    width = max(widths.values()) + 2 * MARGIN
    boxes: dict[str, _Box] = {}
    for row, entries in rows.items():
        x = (width - widths[row]) / 2
        for kind, key, label in entries:
            size = _Box(kind, label, 0, 0).width
            boxes[key] = _Box(kind, label, x + size / 2, row * ROW)
            x += size + GAP
    return _Frame(boxes, lines, width, max(rows) * ROW + HEIGHT + MARGIN)


def _read_by(topology: Topology, node: NodeDefinition) -> Iterable[str]:
    if isinstance(node, SourceDefinition):
        yield from map(topology.full_name, node.topics)


def _written_by(topology: Topology, node: NodeDefinition) -> Iterable[str]:
    if isinstance(node, SinkDefinition):
        yield "(chosen for each record)" if node.topic is None else topology.full_name(node.topic)


def _drawn(frame: _Frame, title: str, width: float, top: float) -> str:
    """Return the SVG of a frame."""
    height = frame.height + FRAME_TOP
    parts = [
        f'<g transform="translate({MARGIN:.0f} {top:.0f})">\n',
        f'<rect width="{width:.1f}" height="{height:.1f}" rx="8" fill="none" stroke="{QUIET}"/>\n',
        f'<text x="12" y="22" fill="{INK}" font-weight="bold">{escape(title)}</text>\n',
        f'<g transform="translate({(width - frame.width) / 2:.1f} {FRAME_TOP:.0f})">\n',
    ]
    for start, end in frame.lines:
        a, b = frame.boxes[start], frame.boxes[end]
        if b.kind == "store":
            parts.append(_line(a.x, a.y + HEIGHT / 2, b.x, b.y + HEIGHT / 2, "4 3"))
        else:
            parts.append(_line(a.x, a.y + HEIGHT, b.x, b.y, "none"))
    for each in frame.boxes.values():
        radius = {"operator": 3, "topic": 0, "store": 13}[each.kind]
        parts.append(
            f'<rect x="{each.x - each.width / 2:.1f}" y="{each.y:.1f}" width="{each.width:.1f}" '
            f'height="{HEIGHT:.0f}" rx="{radius}" fill="{FILLS[each.kind]}" stroke="{QUIET}"/>\n'
            f'<text x="{each.x:.1f}" y="{each.y + 17:.1f}" text-anchor="middle" '
            f'fill="{INK}">{escape(each.label)}</text>\n'
        )
    return "".join(parts) + "</g>\n</g>\n"


def _line(x1: float, y1: float, x2: float, y2: float, dashes: str) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{QUIET}" '
        f'stroke-dasharray="{dashes}"/>\n'
    )
