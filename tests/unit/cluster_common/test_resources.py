import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_common import resources

vectors = st.dictionaries(
    st.sampled_from(["CPU", "GPU", "memory", "x"]), st.integers(1, 10**9), max_size=4
)


@given(st.integers(0, 10**9))
def test_every_fixed_amount_survives_the_way_to_the_user_and_back(fixed):
    assert resources.to_fixed("CPU", resources.to_float(fixed)) == fixed


def test_tenths_add_up_without_a_rest():
    total = {}
    for _ in range(3):
        resources.add(total, resources.vector({"CPU": 0.1}))
    assert resources.floats(total) == {"CPU": 0.3}


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (-1, "not in 0"),
        (math.nan, "not in 0"),
        (math.inf, "not in 0"),
        (0.00001, "finer than the smallest step"),
    ],
)
def test_amounts_that_cannot_be_kept_exactly_are_refused_by_name(amount, said):
    with pytest.raises(ValueError, match=f"'CPU'.*{said}"):
        resources.vector({"CPU": amount})


@pytest.mark.parametrize("amount", ["1", None, True])
def test_an_amount_must_be_a_number(amount):
    with pytest.raises(TypeError, match="must be a number"):
        resources.vector({"CPU": amount})


def test_a_device_is_shared_or_taken_whole():
    assert resources.vector({"GPU": 0.5}) == {"GPU": 5_000}
    assert resources.vector({"GPU": 2}) == {"GPU": 20_000}
    with pytest.raises(ValueError, match="above one device"):
        resources.vector({"GPU": 1.5})


@pytest.mark.parametrize("name", ["", "bundle", "x" * 201])
def test_bad_resource_names_are_refused(name):
    with pytest.raises(ValueError, match="resource name"):
        resources.vector({name: 1})


def test_zero_amounts_leave_no_entry():
    assert resources.vector({"CPU": 0, "GPU": 0.0}) == {}


@given(vectors, vectors)
def test_what_is_added_and_taken_again_leaves_nothing(first, second):
    total = dict(first)
    resources.add(total, second)
    assert resources.fits(first, total)
    assert resources.fits(second, total)
    resources.subtract(total, second)
    assert total == first
    resources.subtract(total, first)
    assert total == {}


def test_group_names_are_those_of_the_field():
    assert resources.indexed_name("CPU", 3, "ab") == "CPU_group_3_ab"
    assert resources.wildcard_name("CPU", "ab") == "CPU_group_ab"
    assert resources.is_group_name("bundle_group_0_ab")
    assert not resources.is_group_name("CPU")
