"""The database that changes, and databases that are made from its changes. All are SQLite files.

Triggers of the primary write each change of the table to the table `changes`, in the transaction of
the change. So the list of changes is complete, in whatever way the table is changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pandas as pd

COLUMNS = ("tailnum", "carrier", "airport", "flights", "seen")
TABLE = """
CREATE TABLE aircraft (
    tailnum TEXT PRIMARY KEY, carrier TEXT, airport TEXT, flights INTEGER, seen INTEGER
);
"""
_CONTENT = "json_object({})".format(", ".join(f"'{name}', NEW.{name}" for name in COLUMNS))
CHANGES = f"""
CREATE TABLE changes (number INTEGER PRIMARY KEY AUTOINCREMENT, tailnum TEXT, content TEXT);
CREATE TRIGGER inserted AFTER INSERT ON aircraft BEGIN
    INSERT INTO changes (tailnum, content) VALUES (NEW.tailnum, {_CONTENT});
END;
CREATE TRIGGER updated AFTER UPDATE ON aircraft BEGIN
    INSERT INTO changes (tailnum, content) VALUES (NEW.tailnum, {_CONTENT});
END;
CREATE TRIGGER deleted AFTER DELETE ON aircraft BEGIN
    INSERT INTO changes (tailnum, content) VALUES (OLD.tailnum, NULL);
END;
"""
LANDED = """
INSERT INTO aircraft VALUES (?, ?, ?, 1, ?)
ON CONFLICT (tailnum) DO UPDATE SET
    carrier = excluded.carrier, airport = excluded.airport, flights = flights + 1,
    seen = excluded.seen
"""
DAY_S = 24 * 3600

Row = tuple[str, str, str, int, int]


@contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection. Its transaction is committed if there is no exception."""
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


def rows(path: Path) -> set[Row]:
    """Return the rows of the table `aircraft`."""
    with connected(path) as database:
        return set(database.execute(f"SELECT {', '.join(COLUMNS)} FROM aircraft"))  # noqa: S608


class Primary:
    """A table of where each aircraft has landed last. Aircraft that are not seen for a day leave it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._day = 0
        with connected(path) as database:
            database.executescript(TABLE + CHANGES)

    def land(self, flights: pd.DataFrame) -> None:
        """Change the table for flights, in the order in which they landed."""
        landed = flights[~flights["cancelled"] & flights["tailnum"].notna()]
        seconds = landed["known_at"].dt.as_unit("s").astype("int64")
        columns = (landed["tailnum"], landed["carrier"], landed["dest"], seconds)
        with connected(self.path) as database:
            for tailnum, carrier, airport, seen in zip(*columns, strict=True):
                if seen // DAY_S != self._day:
                    self._day = seen // DAY_S
                    database.execute("DELETE FROM aircraft WHERE seen < ?", (seen - DAY_S,))
                database.execute(LANDED, (tailnum, carrier, airport, seen))

    def changes(self, after: int) -> list[tuple[int, str, str | None]]:
        """Return (number, key, row as JSON) of the changes after a number. No row: it was deleted."""
        with connected(self.path) as database:
            query = "SELECT number, tailnum, content FROM changes WHERE number > ? ORDER BY number"
            return database.execute(query, (after,)).fetchall()


class Replica:
    """A table that is made from changes. The file remembers which micro-batches it contains."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            with connected(path) as database:
                database.executescript(TABLE + "CREATE TABLE applied (batch INTEGER);")

    def apply(self, batch: int, changes: Iterable[tuple[str, Row | None]]) -> None:
        """Apply the changes of a micro-batch once, even if Spark repeats the micro-batch."""
        with connected(self.path) as database:
            (last,) = database.execute("SELECT coalesce(max(batch), -1) FROM applied").fetchone()
            if batch <= last:
                return
            for tailnum, row in changes:
                if row is None:
                    database.execute("DELETE FROM aircraft WHERE tailnum = ?", (tailnum,))
                else:
                    database.execute("INSERT OR REPLACE INTO aircraft VALUES (?, ?, ?, ?, ?)", row)
            database.execute("INSERT INTO applied VALUES (?)", (batch,))
