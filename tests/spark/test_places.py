"""Topics that a pipeline creates: its own from an earlier run, and those of others."""

from __future__ import annotations

import itertools
import os

import pytest

from odradek.pipelines.places import PipelineError, Places

pytestmark = [pytest.mark.cluster]

numbers = itertools.count()


@pytest.fixture
def names() -> list[str]:
    return [f"places-{os.getpid()}-{next(numbers)}" for _ in range(2)]


def places(servers, output, **more) -> Places:
    return Places(None, servers, output, **more)


def test_a_pipeline_that_was_killed_before_its_first_checkpoint_goes_on(servers, tmp_path, names):
    places(servers, tmp_path / "output").create(*names)
    for is_continued in (True, False):
        places(servers, tmp_path / "output", is_continued=is_continued).create(*names)


@pytest.mark.parametrize("is_continued", [False, True])
def test_topics_of_others_are_refused_with_the_command_that_deletes_them(
    servers, tmp_path, names, make_topic, is_continued
):
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    places(servers, theirs).create(*names)
    own = f"{names[0]}-own"
    places(servers, mine).create(own)
    with pytest.raises(PipelineError, match=r"exist on .*, and no run with the output") as raised:
        places(servers, mine, is_continued=is_continued).create(own, *names)
    assert f"odradek topic delete {' '.join(sorted(names))} -b {servers}" in str(raised.value)
    assert own not in str(raised.value).split()


def test_the_data_of_an_own_broker_is_that_of_the_output(servers, tmp_path, names):
    places(servers, tmp_path / "other").create(*names)
    mine = places(servers, tmp_path / "mine", is_continued=True, broker_process_id=1)
    mine.create(names[0], f"{names[0]}-more")
    mine.create(*names)
