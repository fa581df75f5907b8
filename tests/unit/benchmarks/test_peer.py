"""Which peers a comparison understands."""

from __future__ import annotations

import pytest

from benchmarks import peer
from benchmarks.work import library


def test_a_peer_is_a_known_name_and_a_version():
    assert peer.library_name("ray==2.60.0") == "ray"


@pytest.mark.parametrize("text", ["ray", "ray>=2", "shoal==0.1", "dask==2025.1", "ray==2; rm x"])
def test_anything_else_is_refused_with_what_is_allowed(text):
    with pytest.raises(ValueError, match="ray==VERSION"):
        peer.library_name(text)


def test_only_known_libraries_are_loaded():
    with pytest.raises(ValueError, match="shoal, ray"):
        library.load("numpy")
