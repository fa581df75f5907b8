"""One run from a seed: join, work and faults, calm, checks, goodbye, checks."""

from __future__ import annotations

import msgspec

from cluster_simulator import checkers
from cluster_simulator.checkers.checker import Checker
from cluster_simulator.checkers.prepares_fit import PreparesFit
from cluster_simulator.counter_example import ForgetfulPlacer
from cluster_simulator.failure import InvariantError, SimulationFailedError
from cluster_simulator.nemesis import Nemesis
from cluster_simulator.scenario import Scenario
from cluster_simulator.world import Load, World

_JOIN_US = 3_000_000
_STEP_US = 1_000_000


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is done."""

    check_every: int = 20
    """Events between two looks of the checkers; 0: at rest only."""
    digesting: bool = True
    forgetful: bool = False
    """The counter-example: reservations are forgotten every three seconds."""
    load: Load = Load()


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a run that held all invariants was like."""

    seed: int
    events: int
    virtual_ms: int
    digest: int
    faults: dict[str, int]
    launches: int


class Run:
    """One world under one scenario."""

    def __init__(
        self, scenario: Scenario, seed: int, nodes: int, options: RunOptions, *, recording: bool
    ) -> None:
        self.scenario = scenario
        self.options = options
        self.world = World(
            seed,
            nodes,
            recording=recording,
            digesting=options.digesting,
            rack_size=scenario.rack_size,
            cpus=scenario.cpus,
            schedulers=scenario.schedulers,
            snapshot_delay_ms=scenario.snapshot_delay_ms,
            load=options.load,
        )
        self.checkers: list[Checker] = [kind(self.world) for kind in checkers.ALL]
        if scenario.exact_ledger:
            self.checkers.append(PreparesFit(self.world))
        self.nemesis = Nemesis(self.world, scenario.faults)

    def go(self) -> RunResult:
        """All phases.

        Raises:
            InvariantError: what does not hold.
            AssertionError: a core's own invariant.
        """
        self.join()
        self.busy()
        self.calm()
        self.leave()
        world = self.world
        return RunResult(
            seed=world.seed,
            events=world.heap.count,
            virtual_ms=world.heap.now_ms,
            digest=world.story.digest,
            faults=self.nemesis.done,
            launches=len(world.launches),
        )

    def join(self) -> None:
        """The service and all agents start."""
        world = self.world
        world.start_gcs()
        for machine in world.machines:
            world.start_agent(machine)
        while any(not agent.joined for agent in world.agents.values()):
            self.until(world.heap.now_us + _JOIN_US // 10)

    def busy(self) -> None:
        """Work and faults."""
        self.begin()
        self.until(self.world.heap.now_us + self.scenario.busy_ms * 1_000)

    def begin(self) -> None:
        """Puts the work in and lets things go wrong."""
        self.scenario.begin(self.world)
        self.nemesis.start()
        if self.options.forgetful:
            ForgetfulPlacer(self.world).start()

    def calm(self) -> None:
        """No faults any more: everything converges."""
        self.nemesis.stop()
        self.until(self.world.heap.now_us + self.scenario.calm_ms * 1_000)
        for checker in self.checkers:
            checker.during()
            checker.at_rest()

    def leave(self) -> None:
        """Every owner ends: nothing may stay behind."""
        for owner in list(self.world.owners.values()):
            owner.leave()
        self.until(self.world.heap.now_us + self.scenario.calm_ms * 1_000)
        for checker in self.checkers:
            checker.during()
            checker.at_rest()
            checker.after_all_left()

    def until(self, end_us: int) -> None:
        """Lets time pass."""
        every = self.options.check_every
        self.world.heap.run_until(end_us, self.look if every else None, every or 1)

    def look(self) -> None:
        """Asks every checker what must hold at any moment."""
        for checker in self.checkers:
            checker.during()


def simulate(
    scenario: Scenario, seed: int, *, nodes: int = 0, options: RunOptions | None = None
) -> RunResult:
    """One run; a failure is replayed to tell its story.

    Raises:
        SimulationFailedError: an invariant does not hold.
    """
    options = options or RunOptions()
    nodes = nodes or scenario.nodes
    run = Run(scenario, seed, nodes, options, recording=False)
    try:
        return run.go()
    except AssertionError as error:
        raise _told(run, error, nodes) from error


def _told(run: Run, error: AssertionError, nodes: int) -> SimulationFailedError:
    """Replays with a record of everything: the same seed fails in the same way."""
    seed = run.world.seed
    problem = _problem(error)
    at_ms = run.world.heap.now_ms
    again = Run(run.scenario, seed, nodes, run.options, recording=True)
    story = ["the replay held all invariants: the run is not deterministic"]
    try:
        again.go()
    except AssertionError as second:
        about = second.about if isinstance(second, InvariantError) else ()
        story = again.world.story.of(about)
        if _problem(second) != problem or again.world.heap.now_ms != at_ms:
            story.insert(0, f"the replay failed differently: {_problem(second)}")
    return SimulationFailedError(run.scenario.name, seed, nodes, at_ms, problem, story)


def _problem(error: AssertionError) -> str:
    if isinstance(error, InvariantError):
        return str(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}" if trace else "?"
    return f"{error} ({place})"
