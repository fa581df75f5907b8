"""Invariants, one a file. `ALL` is what every run is held to."""

from __future__ import annotations

from cluster_simulator.checkers.agent_ledgers import AgentLedgers
from cluster_simulator.checkers.bounded_queues import BoundedQueues
from cluster_simulator.checkers.checker import Checker
from cluster_simulator.checkers.group_atomicity import GroupAtomicity
from cluster_simulator.checkers.ledger_adds_up import LedgerAddsUp
from cluster_simulator.checkers.names_unique import NamesUnique
from cluster_simulator.checkers.no_starvation import NoStarvation
from cluster_simulator.checkers.nothing_leaks import NothingLeaks
from cluster_simulator.checkers.views_converge import ViewsConverge

ALL: tuple[type[Checker], ...] = (
    AgentLedgers,
    GroupAtomicity,
    LedgerAddsUp,
    NothingLeaks,
    NamesUnique,
    ViewsConverge,
    NoStarvation,
    BoundedQueues,
)
