from __future__ import annotations

import pytest
from tests.log.support import LogWorkspace


@pytest.fixture
def workspace(tmp_path):
    return LogWorkspace(tmp_path)
