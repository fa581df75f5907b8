"""Whatever phase an actor is in: when its owner ends, it ends, and everybody can see why."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import shoal
from tests.cluster.drivers import DRIVER_DEADLINE_S, started_driver
from tests.cluster.fates import Story, Subject, bring_to, died, listed_cause, nothing_left
from tests.cluster.remote_code import pass_gate
from tests.cluster.waiting import until

pytestmark = pytest.mark.usefixtures("settled")

ROOT = Path(__file__).parents[2]

DRIVER = f"""
    import sys
    sys.path.insert(0, {str(ROOT)!r})
    import shoal
    from tests.cluster.fates import Story, bring_to
    from tests.cluster.remote_code import pass_gate
    shoal.init(namespace="tests", log_to_driver=False)
    subject = bring_to("PHASE", Story("FOLDER"), name="NAME")
    print("ready")
    pass_gate("FOLDER/end")
"""


def name_in(folder: str | Path) -> str:
    """The subject's name: of this case alone, so that one that fails takes none from others."""
    return f"subject of {Path(folder).name}"


@shoal.remote(num_cpus=0, max_restarts=1)
class Owner:
    """An actor that owns a subject."""

    def own(self, phase: str, folder: str) -> int:
        self.subject = bring_to(phase, Story(folder), name=name_in(folder))
        return os.getpid()


@shoal.remote(num_cpus=0, max_retries=0)
def own(phase: str, folder: str) -> None:
    subject = bring_to(phase, Story(folder), name=name_in(folder))
    Path(f"{folder}/.owner").write_text(str(os.getpid()), encoding="ascii")
    Path(f"{folder}/.owner").rename(f"{folder}/owner")
    pass_gate(f"{folder}/end")
    del subject


End = Callable[[], None]


@contextmanager
def driver(phase: str, story: Story, address: str, *, in_order: bool) -> Iterator[End]:
    text = DRIVER.replace("PHASE", phase).replace("FOLDER", str(story.folder))
    text = text.replace("NAME", name_in(story.folder))
    with started_driver(text, address) as started:
        assert started.line() == "ready"

        def end() -> None:
            if in_order:
                (story.folder / "end").touch()
                assert started.process.wait(DRIVER_DEADLINE_S) == 0
            else:
                started.kill()

        yield end


@contextmanager
def actor(phase: str, story: Story, *, detached: bool, by_kill: bool) -> Iterator[End]:
    lifetime = {"lifetime": "detached"} if detached else {}
    owner = Owner.options(**lifetime).remote()
    pid = shoal.get(owner.own.remote(phase, str(story.folder)))

    def end() -> None:
        if by_kill:
            shoal.kill(owner)
        else:
            os.kill(pid, signal.SIGKILL)  # it restarts, but what its first life owned is over

    try:
        yield end
    finally:  # a case that fails must not take the name from the next one
        shoal.kill(owner)


@contextmanager
def task(phase: str, story: Story) -> Iterator[End]:
    running = own.remote(phase, str(story.folder))
    path = story.folder / "owner"
    until(path.exists, "the task owns the subject")

    def end() -> None:
        os.kill(int(path.read_text(encoding="ascii")), signal.SIGKILL)
        with pytest.raises(shoal.exceptions.WorkerCrashedError):
            shoal.get(running)

    yield end


@contextmanager
def owner_of(kind: str, phase: str, story: Story, address: str) -> Iterator[End]:
    """Brings a subject to a phase; what is given ends its owner."""
    if kind == "job":
        made = driver(phase, story, address, in_order=True)
    elif kind == "killed driver":
        made = driver(phase, story, address, in_order=False)
    elif kind == "task":
        made = task(phase, story)
    else:
        made = actor(
            phase, story, detached=kind == "detached actor", by_kill=kind == "killed actor"
        )
    with made as end:
        yield end


STARTS = {"no room": 0, "no argument": 0, "starting": 1, "restarting": 2}
OWNERS = ("job", "killed driver", "killed actor", "crashed actor", "detached actor", "task")


def ends_with_its_owner(kind: str, phase: str, cluster: object, folder: Path) -> None:
    """The subject's fate, seen by somebody who holds a handle and waits for an answer."""
    story = Story(folder)
    name = name_in(folder)
    with owner_of(kind, phase, story, cluster.address) as end:
        held = shoal.get_actor(name)
        waiting = held.pid.remote()
        assert shoal.wait([waiting], timeout=0) == ([], [waiting])
        end()
        error = died(lambda: shoal.get(waiting, timeout=20))
        assert error.cause.name == "OWNER_DIED", error
        assert "owner" in str(error)
        until(lambda: listed_cause(cluster.address, name), "the list says that it is dead")
        assert listed_cause(cluster.address, name) == "OWNER_DIED"
        again = died(lambda: shoal.get(held.pid.remote(), timeout=20))
        assert again.cause.name == "OWNER_DIED"
        nothing_left(story)
        takes_the_name(name)
    assert len(story.pids()) == STARTS[phase]


def takes_the_name(name: str) -> None:
    """It is free for anybody."""
    other = Subject.options(name=name, resources={"nowhere": 1}).remote("")
    shoal.kill(other)


@pytest.mark.parametrize("missing", ["no room", "no argument"])
@pytest.mark.parametrize("owner", OWNERS)
def test_an_actor_that_waits_to_start_ends_with_its_owner(one_node, tmp_path, owner, missing):
    ends_with_its_owner(owner, missing, one_node, tmp_path)


@pytest.mark.parametrize("owner", OWNERS)
def test_an_actor_in_its_constructor_ends_with_its_owner(one_node, tmp_path, owner):
    ends_with_its_owner(owner, "starting", one_node, tmp_path)


@pytest.mark.parametrize("owner", OWNERS)
def test_an_actor_that_restarts_ends_with_its_owner(one_node, tmp_path, owner):
    ends_with_its_owner(owner, "restarting", one_node, tmp_path)
