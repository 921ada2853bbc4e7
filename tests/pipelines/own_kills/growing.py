"""A log that grows and is rotated while a pipeline follows it, is killed, and does not run."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import threading
from pathlib import Path

BURSTS = 200
PAUSE_S = 0.4
LATER_S = 4.0
"""The pause in the second half, so that it still grows when the pipeline has been started again."""
KEPT = 30


class Program(threading.Thread):
    """Writes lines to app.log in bursts, and rotates it now and then, as logrotate does."""

    def __init__(self, directory: Path, count: int, chance: random.Random) -> None:
        super().__init__(name="program", daemon=True)
        directory.mkdir()
        self._log = directory / "app.log"
        self._count = count
        self._chance = chance
        self._may_go_on = threading.Event()
        self.rotations = 0

    def hurry(self) -> None:
        """Write the rest without pauses."""
        self._may_go_on.set()

    def run(self) -> None:
        """See `threading.Thread`."""
        stamps = ("2026-11-28 10:00:{0:02} ", "Nov 28 10:00:{0:02} host ", "")
        for burst in range(BURSTS):
            with self._log.open("a") as file:
                for number in range(
                    self._count * burst // BURSTS, self._count * (burst + 1) // BURSTS
                ):
                    stamp = self._chance.choice(stamps).format(number % 60)
                    file.write(f"{stamp}{self._chance.choice(('ERROR', 'info', 'x'))} line ")
                    if self._chance.random() < 1e-3:  # the reader sees a part of the line
                        file.flush()
                        self._may_go_on.wait(PAUSE_S)
                    file.write(f"{number}\n")
            if self._chance.random() < 0.1:
                self._rotate()
            self._may_go_on.wait(PAUSE_S if burst < BURSTS // 2 else LATER_S)

    def _rotated(self, number: int) -> Path:
        return self._log.with_name(f"app.log.{number}")

    def _rotate(self) -> None:
        """Move older files, compress the last one, and begin a new file, in one of two ways."""
        self.rotations += 1
        for number in range(KEPT, 0, -1):
            for path in (self._rotated(number), self._rotated(number).with_suffix(f".{number}.gz")):
                if path.exists():
                    path.rename(str(path).replace(f".log.{number}", f".log.{number + 1}"))
        older = self._rotated(2)
        if older.exists():
            with gzip.open(f"{older}.gz", "wb") as packed:
                packed.write(older.read_bytes())
            older.unlink()
        if self._chance.random() < 0.5:
            self._log.rename(self._rotated(1))
        else:
            shutil.copyfile(self._log, self._rotated(1))
            os.truncate(self._log, 0)
