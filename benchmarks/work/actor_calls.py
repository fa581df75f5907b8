"""The rows that call actors: one caller or many, plain, threaded and async actors."""

from __future__ import annotations

from typing import Any

from benchmarks.work.plain import Work

BATCH_CALLS = 1000
THREADS = 16
PARTIES = 2


def plain_class(library: Any) -> Any:
    """A remote class whose method does nothing."""

    class Actor:
        def small_value(self) -> bytes:
            return b"ok"

    return library.remote(num_cpus=0)(Actor)


def async_class(library: Any) -> Any:
    """A remote class whose coroutine does nothing."""

    class AsyncActor:
        async def small_value(self) -> bytes:
            return b"ok"

    return library.remote(num_cpus=0)(AsyncActor)


def client_class(library: Any) -> Any:
    """A remote class that calls other actors, or starts tasks, and waits for the answers."""

    def small_value() -> bytes:
        return b"ok"

    small_task = library.remote(small_value)

    class Client:
        def __init__(self, servers: list[Any]) -> None:
            self.servers = servers

        def call_servers(self, calls_each: int) -> int:
            references = [
                server.small_value.remote() for server in self.servers for _ in range(calls_each)
            ]
            return len(library.get(references))

        def start_tasks(self, tasks: int) -> int:
            return len(library.get([small_task.remote() for _ in range(tasks)]))

    return library.remote(num_cpus=0)(Client)


def one_at_a_time(library: Any) -> Work:
    """One caller, one plain actor, one call at a time."""
    return _single(library, plain_class(library).remote())


def batch(library: Any) -> Work:
    """One caller, one plain actor, 1,000 calls and then their values."""
    return _batch(library, plain_class(library).remote())


def batch_threaded(library: Any) -> Work:
    """The same with an actor of 16 threads."""
    return _batch(library, plain_class(library).options(max_concurrency=THREADS).remote())


def async_one_at_a_time(library: Any) -> Work:
    """One caller, one async actor, one call at a time."""
    return _single(library, async_class(library).remote())


def async_batch(library: Any) -> Work:
    """One caller, one async actor, 1,000 calls and then their values."""
    return _batch(library, async_class(library).remote())


def one_to_two(library: Any) -> Work:
    """An actor as the caller of two servers, 1,000 calls each."""
    servers = _started(library, plain_class(library), PARTIES)
    client = client_class(library).remote(servers)
    return Work(
        lambda: library.get(client.call_servers.remote(BATCH_CALLS)),
        library.kill,
        [client, *servers],
    )


def two_to_two(library: Any) -> Work:
    """Two actors as callers of the same two servers, 500 calls from each to each."""
    servers = _started(library, plain_class(library), PARTIES)
    client = client_class(library)
    clients = [client.remote(servers) for _ in range(PARTIES)]
    calls_each = BATCH_CALLS // PARTIES
    return Work(
        lambda: library.get([each.call_servers.remote(calls_each) for each in clients]),
        library.kill,
        [*clients, *servers],
    )


def two_task_clients(library: Any) -> Work:
    """Two actors that start 1,000 tasks each."""
    client = client_class(library)
    clients = [client.remote([]) for _ in range(PARTIES)]
    return Work(
        lambda: library.get([each.start_tasks.remote(BATCH_CALLS) for each in clients]),
        library.kill,
        clients,
    )


def _single(library: Any, actor: Any) -> Work:
    _check(library, actor)
    return Work(lambda: library.get(actor.small_value.remote()), library.kill, [actor])


def _batch(library: Any, actor: Any) -> Work:
    _check(library, actor)
    return Work(
        lambda: library.get([actor.small_value.remote() for _ in range(BATCH_CALLS)]),
        library.kill,
        [actor],
    )


def _check(library: Any, actor: Any) -> None:
    """The timed calls do not look at the values; these do."""
    values = library.get([actor.small_value.remote() for _ in range(BATCH_CALLS)])
    if values != [b"ok"] * BATCH_CALLS:
        raise RuntimeError("an actor answered wrongly")


def _started(library: Any, remote_class: Any, count: int) -> list[Any]:
    actors = [remote_class.remote() for _ in range(count)]
    library.get([actor.small_value.remote() for actor in actors])
    return actors
