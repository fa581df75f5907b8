from __future__ import annotations

import pytest

from tests.wire.agent.agent_rig import Rig


@pytest.fixture
async def rig(tmp_path):
    """Everything around one agent; `await rig.start(...)` starts it."""
    made = Rig(tmp_path)
    try:
        yield made
    finally:
        await made.close()
