"""One driver: its job, its groups, its leases, its gangs and tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster_api.v1 import gcs_pb2 as g
from cluster_common import ids
from cluster_simulator import costs, wire
from cluster_simulator.link import Link
from cluster_simulator.owner.gang import Gang, GangPlan
from cluster_simulator.owner.group_desk import GroupDesk
from cluster_simulator.owner.lease_desk import LeaseDesk
from cluster_simulator.owner.lease_session import LeaseSession
from cluster_simulator.owner.task_line import TaskLine
from cluster_simulator.process import Process
from gcs_service.core.control_core import ControlCore
from gcs_service.core.effects import Refusal

if TYPE_CHECKING:
    from cluster_simulator.agent_process import AgentProcess
    from cluster_simulator.world import World

_CALL_AGAIN_US = 250_000
_HOME_AGAIN_US = 100_000


class OwnerProcess(Process):
    """Dies at once (`crash`) or in order (`leave`)."""

    def __init__(self, world: World, number: int, owner_id: bytes, home: AgentProcess) -> None:
        super().__init__(world, f"owner{number}", f"owner{number}:1")
        self.owner_id = self.identity = owner_id
        self.job_id = b""
        self.home_node_id = home.node_id
        self.groups = GroupDesk(self)
        self.leases = LeaseDesk(self, home.address)
        self.gangs: list[Gang] = []
        self.tasks: list[TaskLine] = []
        self.lease_links: dict[int, LeaseSession] = {}
        self.is_leaving = False
        self._sequence = 0
        self._plans: list[Callable[[], None]] = []
        self.network.listeners[self.address] = self

    def start(self) -> None:
        """Asks for a job number; then everything planned begins."""
        record = g.JobRecord(
            driver_id=self.owner_id,
            driver_address=self.address,
            home_node_id=self.home_node_id,
        )
        self.ask(lambda core: core.add_job, (record,), self._job_added)

    def _job_added(self, answer: g.JobRecord | Refusal) -> None:
        if isinstance(answer, Refusal):
            self.crash()
            return
        if self.job_id:
            return
        self.job_id = answer.job_id
        self.groups.connect()
        self.leases.start()
        plans, self._plans = self._plans, []
        for plan in plans:
            plan()

    def next_id(self) -> bytes:
        """Ids of groups, actors and leases name their owner."""
        self._sequence += 1
        return ids.task_id(ids.OwnerId(self.owner_id), self._sequence)

    def launch(self, plan: GangPlan) -> None:
        """Launches a gang, as soon as the job is known."""
        self.when_ready(lambda: self._launch(plan))

    def when_ready(self, call: Callable[[], None]) -> None:
        """Calls now, or when the job is known."""
        if self.job_id:
            call()
        else:
            self._plans.append(call)

    def _launch(self, plan: GangPlan) -> None:
        if not self.is_leaving:
            gang = Gang(self, plan)
            self.gangs.append(gang)
            gang.launch()

    def submit(self, count: int, *, cpus: int, task_us: int) -> None:
        """Plain tasks of one shape."""
        if not self.job_id or self.is_leaving:
            return
        line = TaskLine(self, cpus, task_us)
        self.tasks.append(line)
        line.submit(count)

    def leave(self) -> None:
        """Ends in order: the job is finished, sessions say goodbye, the process is gone."""
        if not self.alive or self.is_leaving:
            return
        self.is_leaving = True
        if not self.job_id:
            self.crash()
            return
        self.leases.close("the driver ended")
        self.ask(lambda core: core.finish_job, (self.job_id,), lambda _: self.crash())

    def gone(self) -> None:
        """Its port is closed."""
        self.world.owner_died(self)

    def home_lost(self) -> None:
        """The home agent is gone: another one answers for this process."""
        if not self.alive or self.is_leaving:
            return
        home = self.world.some_agent(near=self)
        if home is None:
            self.later(_HOME_AGAIN_US, self.home_lost)
            return
        self.home_node_id = home.node_id
        self.leases.move_home(home.address)

    # ---- unary calls to the GCS

    def ask(
        self,
        method: Callable[[ControlCore], Callable[..., Any]],
        args: tuple[Any, ...],
        answered: Callable[[Any], None],
    ) -> None:
        """Calls, again and again until it is answered: calls are idempotent."""
        self.heap.after(self.network.delay_us(), self._at_gcs, method, args, answered)

    def _at_gcs(
        self,
        method: Callable[[ControlCore], Callable[..., Any]],
        args: tuple[Any, ...],
        answered: Callable[[Any], None],
    ) -> None:
        if not self.alive:
            return
        gcs = self.world.gcs

        def again() -> None:
            self.later(_CALL_AGAIN_US, self._at_gcs, method, args, answered)

        def heard(result: Any) -> None:
            if self.alive:
                answered(wire.copied(result))

        if gcs is None or not self.network.is_reachable(self, gcs):
            again()
            return
        sent = tuple(wire.copied(argument) for argument in args)
        gcs.call(method(gcs.core), sent, heard, again)

    # ---- links

    def link_frame(self, link: Link, items: list[Any]) -> None:
        """From the GCS or an agent."""
        self.work(len(items) * costs.OWNER_ITEM_US, self._frame, link, items)

    def _frame(self, link: Link, items: list[Any]) -> None:
        if link.kind == "groups":
            self.groups.arrived(link, items)
            return
        session = self.lease_links.get(link.number)
        if session is not None:
            session.arrived(items)

    def link_closed(self, link: Link, *, refused: bool) -> None:
        """Behind what it still delivered."""
        del refused
        self.work(0, self._link_over, link)

    def _link_over(self, link: Link) -> None:
        if link.kind == "groups":
            self.groups.broken(link)
            return
        session = self.lease_links.pop(link.number, None)
        if session is not None:
            session.broken()
