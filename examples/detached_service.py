"""A service that outlives the program that made it.

shoal start --head
python examples/detached_service.py hello   # the first run makes the service
python examples/detached_service.py world   # later runs find it
python examples/detached_service.py --stop
"""

from __future__ import annotations

import sys

import shoal

NAME = "guest-book"
NAMESPACE = "examples"


@shoal.remote(num_cpus=0)
class GuestBook:
    """Remembers who signed; the cluster restarts it should its worker die."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def sign(self, name: str) -> list[str]:
        """Everybody who signed so far, `name` included."""
        self.names.append(name)
        return self.names


def main(words: list[str]) -> None:
    shoal.init(address="auto", namespace=NAMESPACE)
    if words == ["--stop"]:
        shoal.kill(shoal.get_actor(NAME))
        print("the guest book is closed")
        return
    # One operation at the server: two programs that start together get the same book.
    book = GuestBook.options(
        name=NAME, lifetime="detached", get_if_exists=True, max_restarts=-1
    ).remote()
    for word in words or ["anonymous"]:
        print("signed so far:", ", ".join(shoal.get(book.sign.remote(word))))
    shoal.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
