"""What a faked worker answers."""

from __future__ import annotations

from driver_client.objects import serialization
from raylet_agent.fleet.callees import NONE


def test_the_none_of_a_faked_worker_is_what_a_real_one_writes():
    assert serialization.dumps(None) == NONE
