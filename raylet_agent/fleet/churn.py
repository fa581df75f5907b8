"""Every node changes many times within a moment; how long until every scheduler view is true."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import msgspec

from raylet_agent.core.agent import AgentCore
from raylet_agent.fleet import limits
from raylet_agent.fleet.fleet_agent import FleetAgent


class ChurnResult(msgspec.Struct, frozen=True):
    """Seconds since the first change; `receivers` hold the views that were compared."""

    changing_s: float
    converged_s: float
    nodes: int
    receivers: int


async def churn(agents: Sequence[FleetAgent], times: int, window_s: float) -> ChurnResult:
    """Each agent's free amounts change `times` times, then everything is waited for.

    Raises:
        TimeoutError: some view was not true in time; says how many were.
        ValueError: no agent of this fleet receives views.
    """
    receivers = [agent.core for agent in agents if len(agent.core.views) > 1]
    if not receivers and len(agents) > 1:
        raise ValueError("no agent of this fleet receives views; start it with --schedulers 1")
    start = time.perf_counter()
    for turn in range(times):
        await _until(start + turn * window_s / times)
        await _change_all(agents, turn)
    changing_s = time.perf_counter() - start
    await _converged(receivers, [agent.core for agent in agents])
    converged_s = time.perf_counter() - start
    await _undo_all(agents, times)
    return ChurnResult(changing_s, converged_s, len(agents), len(receivers))


async def _until(moment_s: float) -> None:
    delay_s = moment_s - time.perf_counter()
    if delay_s > 0:
        await asyncio.sleep(delay_s)


def _key(turn: int) -> bytes:
    return b"churn %d" % turn


async def _change_all(agents: Sequence[FleetAgent], turn: int) -> None:
    for number, agent in enumerate(agents):
        pool = agent.core.ledger.node
        # The smallest amount there is, and another total each time: no view is true by accident.
        pool.take(_key(turn), {next(iter(pool.total)): 1})
        agent.host.report_now()
        if number % limits.TURN_AGENTS == 0:
            await asyncio.sleep(0)


async def _undo_all(agents: Sequence[FleetAgent], times: int) -> None:
    for number, agent in enumerate(agents):
        for turn in range(times):
            agent.core.ledger.node.release(_key(turn))
        agent.host.report_now()
        if number % limits.TURN_AGENTS == 0:
            await asyncio.sleep(0)


async def _converged(receivers: Sequence[AgentCore], nodes: Sequence[AgentCore]) -> None:
    # What was true once stays true, since nothing changes any more: each pair is looked at until
    # it is true, then never again.
    deadline = time.perf_counter() + limits.CONVERGED_TIMEOUT_S
    true_views = 0
    for receiver in receivers:
        for node in nodes:
            while not _is_true(receiver, node):
                if time.perf_counter() > deadline:
                    wanted = len(receivers) * len(nodes)
                    raise TimeoutError(f"only {true_views} of {wanted} views became true")
                await asyncio.sleep(limits.CONVERGED_LOOK_S)
            true_views += 1


def _is_true(receiver: AgentCore, node: AgentCore) -> bool:
    view = receiver.views.get(node.facts.node_id)
    if view is None:
        return False
    return view.own is not None or view.available == node.ledger.node.available
