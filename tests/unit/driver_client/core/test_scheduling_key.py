from cluster_api.v1 import agent_pb2 as pb
from driver_client.core.scheduling_key import SchedulingKey


def request(**fields):
    made = pb.LeaseRequest(**fields)
    made.resources.amounts["CPU"] = 10_000
    return made


def test_the_name_does_not_part_tasks_that_can_share_workers():
    assert SchedulingKey(request(name="f")).digest == SchedulingKey(request(name="g")).digest


def test_everything_else_does():
    plain = SchedulingKey(request()).digest
    others = [
        SchedulingKey(request(**fields)).digest
        for fields in (
            {"runtime_env_json": "{}"},
            {"placement_group_id": b"p"},
            {"bundle_index": 1},
            {"strategy": pb.SCHEDULING_STRATEGY_SPREAD},
            {"job_id": b"j"},
        )
    ]
    assert len({plain, *others}) == 6


def test_a_request_has_its_own_id_and_leaves_the_key_alone():
    key = SchedulingKey(request(name="f"))
    made = key.lease_request(b"l")
    assert (made.lease_id, made.name) == (b"l", "f")
    assert made.resources.amounts == {"CPU": 10_000}
    assert key.request.lease_id == b""
