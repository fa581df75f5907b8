"""Directory rows of runtime packages live as long as the job or detached actor they belong to."""

from __future__ import annotations

from cluster_common import runtime_packages
from gcs_service.core import package_rows
from gcs_service.core.kv_table import KvTable
from gcs_service.core.moment import Moment

AT = Moment(mono_ms=1, wall_ms=1)
JOB, OTHER, ACTOR = b"\0\0\0\1", b"\0\0\0\2", b"\0\0\0\1" + bytes(20)


def put(table, prefix, digest):
    table.put(
        runtime_packages.NAMESPACE,
        prefix + digest * 32,
        b"host:1",
        if_absent=False,
        if_revision=None,
        ttl_ms=0,
        at=AT,
    )


def keys(table):
    return [key[0:1] + key[-1:] for key in table.keys(runtime_packages.NAMESPACE, b"", 0, AT)[0]]


def filled():
    table = KvTable()
    put(table, runtime_packages.job_prefix(JOB), b"x")
    put(table, runtime_packages.job_prefix(OTHER), b"x")
    put(table, runtime_packages.actor_prefix(ACTOR), b"y")
    return table


def test_the_rows_of_a_job_go_and_no_others():
    table = filled()
    package_rows.forget(table, runtime_packages.job_prefix(JOB), AT)
    assert keys(table) == [b"ay", b"jx"]
    package_rows.forget(table, runtime_packages.actor_prefix(ACTOR), AT)
    assert keys(table) == [b"jx"]


def test_rows_of_what_ended_meanwhile_go_at_the_start():
    table = filled()
    wanted = {runtime_packages.job_prefix(OTHER)}
    package_rows.forget_left(table, wanted.__contains__, AT)
    assert keys(table) == [b"jx"]


def test_a_row_keeps_the_newest_addresses():
    row = b""
    for number in range(runtime_packages.HOLDERS_MAX + 2):
        row = runtime_packages.with_holder(row, f"host:{number}")
    row = runtime_packages.with_holder(row, "host:5")
    found = runtime_packages.holders(row)
    assert len(found) == runtime_packages.HOLDERS_MAX
    assert found[-1] == "host:5"
    assert "host:0" not in found
