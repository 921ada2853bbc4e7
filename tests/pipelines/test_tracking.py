"""The logs of a follower are found by inode and by name, as a look at all of them would find them."""

from __future__ import annotations

import random
from pathlib import Path

from odradek.pipelines.follow.log import Log, stem_of
from odradek.pipelines.follow.tracking import Logs, Tracked

NAMES = ("app.log", "app", "app-2.log.1", ".app.log", "a", "web.log", "web_error.log", ".", "..x")


class File:
    """The part of `files.Followed` that a log needs."""

    def __init__(self, identity):
        self.identity = identity

    def close(self):
        pass


def test_logs_are_found_as_by_a_look_at_all():
    chance = random.Random(4)
    logs = Logs([])
    known: list[Tracked] = []
    for _ in range(300):
        if chance.random() < 0.5 or not known:
            file = f"/logs/{chance.randrange(3)}/{chance.choice(NAMES)}"
            earlier = [each.log.generation for each in known if each.log.file == file]
            assert logs.last_generation(file) == max(earlier, default=0)
            known.append(Tracked(Log(file, 1 + max(earlier, default=0), 1, chance.randrange(20))))
            logs.add(known[-1])
        else:
            tracked = chance.choice(known)
            tracked.now_has(Path("/logs/x"), File((1, chance.randrange(20))))
            logs.joined(tracked)
        identity = (1, chance.randrange(20))
        assert logs.of(identity) == [each for each in known if each.log.identity == identity]
        path = Path("/logs") / chance.choice(NAMES)
        name = path.name.lstrip(".")
        assert logs.named_like(path) == [
            each for each in known if name.startswith(stem_of(Path(each.log.file)))
        ]
    assert list(logs) == known
