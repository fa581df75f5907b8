"""What an agent keeps, each under its cap: for `shoal status -v`."""

from __future__ import annotations

from collections.abc import Iterable

from cluster_api.v1 import agent_pb2 as a
from cluster_common import limits as common_limits
from raylet_agent import limits
from raylet_agent.core.bounds_report import core_tables
from raylet_agent.core.table_size import table
from raylet_agent.shell.host import AgentHost, Stream
from raylet_agent.shell.task_event_store import TaskEventStore


def agent_tables(host: AgentHost, events: TaskEventStore) -> list[a.AgentTable]:
    """Tables, queues and backlogs of this agent."""
    backlog_max, streams_max = common_limits.OUTBOX_ITEMS_MAX, common_limits.SERVER_CALLS_OPEN_MAX
    environments = host.environments
    return [
        *core_tables(host.core),
        table("owner_session", len(host.sessions), streams_max),
        table("owner_backlog", _longest(host.sessions.values()), backlog_max),
        table("worker_link", len(host.links), streams_max),
        table("worker_backlog", _longest(host.links.values()), backlog_max),
        table("gcs_backlog", 0 if host.gcs is None else len(host.gcs), backlog_max),
        table("log_line_waiting", host.logs.longest_queue, limits.LOG_LINES_QUEUED_MAX),
        host.ended_logs.table(),
        *events.tables(),
        *([] if environments is None else [environments.table()]),
    ]


def _longest(streams: Iterable[Stream]) -> int:
    """Unsent items of the peer that reads most slowly."""
    return max((len(stream.outbox) for stream in streams), default=0)
