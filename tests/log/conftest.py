from __future__ import annotations

import pytest
from tests.log.support import LogRoom


@pytest.fixture
def room(tmp_path):
    return LogRoom(tmp_path)
