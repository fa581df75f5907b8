from __future__ import annotations

import pytest

from driver_client import object_ref
from tests.wire.driver.peer_rig import PeerRig


@pytest.fixture
def rig():
    """An owner and a worker; nothing of them is left afterwards."""
    object_ref.changes.clear()
    made = PeerRig()
    try:
        yield made
    finally:
        made.close()
        object_ref.changes.clear()
