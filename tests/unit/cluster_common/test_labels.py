import pytest

from cluster_common import labels


@pytest.mark.parametrize(
    ("expression", "matching", "failing"),
    [
        ("r1", ["r1"], ["r2", None]),
        ("!r1", ["r2", None], ["r1"]),
        ("in(r1,r2)", ["r1", "r2"], ["r3", None]),
        ("!in(r1, r2)", ["r3", None], ["r1", "r2"]),
    ],
)
def test_a_term_matches_as_written_and_a_missing_label_passes_only_negative_terms(
    expression, matching, failing
):
    selector = labels.parse_selector({"rack": expression})
    for value in matching + failing:
        node = {} if value is None else {"rack": value}
        assert labels.matches(selector, node) == (value in matching)


@pytest.mark.parametrize("expression", ["", "!", "in()", "in(a,)", "a b", "in(a", "r1\n"])
def test_expressions_of_another_shape_are_refused(expression):
    with pytest.raises(ValueError, match="label selector 'rack'"):
        labels.parse_selector({"rack": expression})


@pytest.mark.parametrize("key", ["", "-a", "a b", "x" * 256])
def test_bad_label_names_are_refused(key):
    with pytest.raises(ValueError, match="label"):
        labels.check_labels({key: "v"})


def test_selectors_that_exclude_each_other_are_found():
    one = labels.parse_selector({"rack": "in(a,b)"})
    other = labels.parse_selector({"rack": "!in(a,b)"})
    same = labels.parse_selector({"rack": "b"})
    assert labels.contradiction([one, other]) == "rack"
    assert labels.contradiction([one, same]) is None


def test_a_star_asks_only_whether_the_label_exists():
    there, absent = labels.parse_selector({"rack": "*"}), labels.parse_selector({"rack": "!*"})
    assert labels.matches(there, {"rack": "a"})
    assert not labels.matches(there, {"zone": "a"})
    assert labels.matches(absent, {"zone": "a"})
    assert not labels.matches(absent, {"rack": "a"})
    assert labels.contradiction([there, labels.parse_selector({"rack": "b"})]) is None


def test_rays_key_of_the_node_id_is_read_as_ours():
    selector = labels.parse_selector({"ray.io/node-id": "!in(ab,cd)"})
    assert selector == labels.parse_selector({"shoal.io/node-id": "!in(ab,cd)"})
    assert labels.matches(selector, {"shoal.io/node-id": "ef"})
    assert not labels.matches(selector, {"shoal.io/node-id": "ab"})
    assert labels.shown({"shoal.io/node-id": "ab", "rack": "r"}) == {
        "shoal.io/node-id": "ab",
        "ray.io/node-id": "ab",
        "rack": "r",
    }
    assert labels.shown({"rack": "r"}) == {"rack": "r"}
