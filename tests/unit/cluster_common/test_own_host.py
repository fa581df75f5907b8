import pytest

from cluster_common.transport import own_host


@pytest.mark.parametrize("address", ["127.0.0.1:1", "localhost:1", "::1:1", "127.9.9.9:1"])
def test_towards_a_loopback_peer_we_are_loopback(address):
    assert own_host.host_towards(address) == "127.0.0.1"


def test_a_peer_whose_name_is_unknown_is_said():
    with pytest.raises(OSError, match=r"host 'no-such-host\.invalid' cannot be found"):
        own_host.host_towards("no-such-host.invalid:1")


def test_outward_we_have_an_address():
    assert own_host.outward_host().count(".") == 3
