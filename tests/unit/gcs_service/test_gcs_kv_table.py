"""KV contract: who won, what is stored, what a namespace may hold."""

from __future__ import annotations

import pytest

from gcs_service import limits
from gcs_service.core import effects as fx
from gcs_service.core.effects import Refusal
from gcs_service.core.kv_table import KvTable, PutOutcome
from gcs_service.core.moment import Moment

NOW = Moment(1_000, 1_700_000_000_000)


def later(ms):
    return Moment(NOW.mono_ms + ms, NOW.wall_ms + ms)


@pytest.fixture
def table():
    table = KvTable()
    yield table
    # What was written is what a restart would find.
    again = KvTable()
    rows = {}
    for write in table.take_writes():
        rows[write.key] = write.value
    again.load(sorted((key, value) for key, value in rows.items() if value is not None))
    assert (again.rows, again.bytes_used) == (table.rows, table.bytes_used)


def put(table, key, value, *, space="", if_absent=False, if_revision=None, ttl_ms=0, at=NOW):
    return table.put(
        space, key, value, if_absent=if_absent, if_revision=if_revision, ttl_ms=ttl_ms, at=at
    )


def test_a_put_says_that_it_was_written_and_whether_the_key_is_new(table):
    assert put(table, b"k", b"1") == PutOutcome(written=True, revision=1, added=True)
    assert put(table, b"k", b"2") == PutOutcome(written=True, revision=2, added=False)
    assert table.get("", b"k", NOW).value == b"2"


def test_of_two_puts_if_absent_the_second_learns_the_revision_of_the_first(table):
    first = put(table, b"k", b"me", if_absent=True)
    second = put(table, b"k", b"you", if_absent=True)
    assert (first.written, second.written, second.revision) == (True, False, first.revision)
    assert table.get("", b"k", NOW).value == b"me"


def test_a_put_if_revision_wins_only_on_that_revision(table):
    revision = put(table, b"k", b"1").revision
    assert not put(table, b"k", b"2", if_revision=revision + 1).written
    assert put(table, b"k", b"2", if_revision=revision).written
    assert not put(table, b"k", b"3", if_revision=revision).written


def test_revision_zero_means_that_the_key_must_not_exist(table):
    assert put(table, b"k", b"1", if_revision=0).written
    assert not put(table, b"k", b"2", if_revision=0).written


def test_namespaces_are_apart(table):
    put(table, b"k", b"1", space="a")
    put(table, b"k", b"2", space="b")
    assert table.delete("a", b"k", prefix=False, at=NOW) == 1
    assert table.get("a", b"k", NOW) is None
    assert table.get("b", b"k", NOW).value == b"2"


def test_keys_with_a_prefix_come_in_order_and_say_when_they_are_cut(table):
    for key in (b"b2", b"a", b"b1", b"b3", b"c"):
        put(table, key, b"")
    assert table.keys("", b"b", 0, NOW) == ([b"b1", b"b2", b"b3"], False)
    assert table.keys("", b"b", 2, NOW) == ([b"b1", b"b2"], True)
    assert table.keys("nowhere", b"", 0, NOW) == ([], False)


def test_deleting_a_prefix_counts_what_was_there(table):
    for key in (b"a1", b"a2", b"b"):
        put(table, key, b"x")
    assert table.delete("", b"a", prefix=True, at=NOW) == 2
    assert table.delete("", b"a", prefix=True, at=NOW) == 0
    assert table.keys("", b"", 0, NOW) == ([b"b"], False)


def test_an_expired_value_is_gone_for_every_question_and_the_key_is_free(table):
    put(table, b"k", b"1", ttl_ms=50)
    assert table.get("", b"k", later(49)).value == b"1"
    assert table.get("", b"k", later(50)) is None
    assert table.keys("", b"", 0, later(50)) == ([], False)
    assert put(table, b"k", b"2", if_absent=True, at=later(51)).added


def test_the_quota_stops_one_namespace_only_and_names_it():
    table = KvTable(quota_bytes=100)
    assert put(table, b"k", b"x" * 90, space="full").written
    refused = put(table, b"l", b"x" * 20, space="full")
    assert isinstance(refused, Refusal)
    assert refused.code == fx.QUOTA
    assert "full" in refused.message
    assert put(table, b"l", b"x" * 20, space="other").written
    assert put(table, b"k", b"x", space="full").written
    assert put(table, b"l", b"x" * 20, space="full").written


def test_the_rows_of_all_namespaces_together_are_bounded(table, monkeypatch):
    monkeypatch.setattr(limits, "KV_ROWS_MAX", 3)
    for number in range(3):
        assert put(table, b"%d" % number, b"", space=str(number)).written
    refused = put(table, b"3", b"", space="3")
    assert isinstance(refused, Refusal)
    assert refused.code == fx.TABLE_FULL
    assert put(table, b"0", b"again", space="0").written
    assert table.delete("0", b"0", prefix=False, at=NOW) == 1
    assert put(table, b"3", b"", space="3").written


@pytest.mark.parametrize("key", [b"", b"x" * (limits.KV_KEY_BYTES_MAX + 1)])
def test_keys_of_a_wrong_size_are_refused(table, key):
    assert isinstance(put(table, key, b""), Refusal)


def test_too_large_a_value_is_refused(table, monkeypatch):
    monkeypatch.setattr(limits, "KV_VALUE_BYTES_MAX", 10)
    assert put(table, b"k", b"x" * 11).code == fx.TOO_LARGE


def test_revisions_go_on_after_a_restart(table):
    put(table, b"k", b"1")
    newest = put(table, b"l", b"1").revision
    again = KvTable()
    again.load([(write.key, write.value) for write in table.writes])
    assert put(again, b"m", b"1").revision == newest + 1


def test_expired_values_that_nobody_asks_for_go_with_later_puts(table):
    for number in range(10):
        put(table, b"k%d" % number, b"x", ttl_ms=10)
    put(table, b"other", b"y", at=later(11))
    assert table.rows == 1
