from __future__ import annotations

import pytest

from tests.unit.gcs_service.placement.placement_world import World


@pytest.fixture
def world():
    """An empty cluster; its books are checked at the end."""
    made = World()
    yield made
    made.check_books()
