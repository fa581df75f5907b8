"""What a provider of nodes must do. One provider, one kind of machine park."""

from __future__ import annotations

from typing import Protocol

import msgspec

from autoscaler.core.config import NodeType


class Instance(msgspec.Struct, frozen=True):
    """A machine (or process) that was bought and not given back.

    Attributes:
        instance_id: also the label `shoal.io/instance-id` of its node.
        launched_ms: monotonic time of the order.
        failure: why it will never be (or is no longer) a node; empty while it may.
    """

    instance_id: str
    node_type: str
    launched_ms: int
    failure: str = ""


class ProviderError(RuntimeError):
    """The provider could not do it; names what and why."""


class Provider(Protocol):
    """Called from one task of the loop only."""

    async def launch(self, node_type: NodeType, count: int) -> None:
        """Orders nodes; they join the cluster by themselves, labelled with type and instance.

        Raises:
            ProviderError: none or only some were ordered; those show in `instances`.
        """
        ...

    async def terminate(self, instance_id: str) -> None:
        """Ends an instance; no effect when it is gone."""
        ...

    def instances(self) -> list[Instance]:
        """All that were ordered and not given back."""
        ...

    async def close(self) -> None:
        """The autoscaler ends."""
        ...
