from __future__ import annotations

import pytest

from tests.unit.raylet_agent.agent_world import World


@pytest.fixture
def world():
    """An agent with 4 CPUs; its whole state is checked at the end."""
    made = World()
    made.open()
    yield made
    made.check()
