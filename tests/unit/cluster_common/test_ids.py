import pytest

from cluster_common import ids

OWNER = ids.OwnerId(bytes(range(16)))


def test_ids_of_an_owner_name_the_owner_and_their_place():
    task = ids.task_id(OWNER, 7)
    made = ids.object_id(task, 2)
    assert len(task) == ids.TASK_ID_BYTES
    assert len(made) == ids.OBJECT_ID_BYTES
    assert ids.owner_of(made) == OWNER
    assert ids.sequence_of(made) == 7
    assert ids.task_of(made) == task
    assert ids.return_index_of(made) == 2


def test_ids_of_one_owner_sort_by_creation():
    assert ids.task_id(OWNER, 255) < ids.task_id(OWNER, 256)


def test_hex_text_of_the_right_length_is_read_back():
    assert ids.parse_hex(OWNER.hex(), ids.OWNER_ID_BYTES, "owner") == OWNER


@pytest.mark.parametrize(
    ("text", "said"), [("zz", "not hexadecimal"), ("abcd", "4 hex digits, 32 are needed")]
)
def test_bad_hex_is_refused_by_name(text, said):
    with pytest.raises(ValueError, match=f"node id .*{said}"):
        ids.parse_hex(text, ids.NODE_ID_BYTES, "node id")
