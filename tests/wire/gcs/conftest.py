from __future__ import annotations

import pytest

from tests.wire.gcs.gcs_rig import GcsRig


@pytest.fixture
async def gcs(tmp_path):
    """A control service on SQLite; `restart` gives it its next life."""
    rig = GcsRig(tmp_path)
    await rig.start()
    try:
        yield rig
    finally:
        await rig.close()
