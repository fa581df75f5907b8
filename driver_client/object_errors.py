"""Errors of objects whose value cannot be had. Constructors take what Ray's take, in that order."""

from __future__ import annotations

from driver_client.base_errors import RayError


class ObjectLostError(RayError):
    """The object's value cannot be had any more.

    Args:
        object_ref_hex, owner_address, call_site: as the attributes.
        message: the text; made from the others if it is not given.

    Attributes:
        object_ref_hex: the object's id.
        owner_address: of the process that made it, if known.
        call_site: where it was made, empty if not known.
    """

    default = "its value is lost"

    def __init__(
        self,
        object_ref_hex: str = "",
        owner_address: bytes | str | None = None,
        call_site: str = "",
        *,
        message: str = "",
    ) -> None:
        self.object_ref_hex = object_ref_hex
        self.owner_address = owner_address
        self.call_site = call_site
        made_at = f" (made at {call_site})" if call_site else ""
        super().__init__(message or f"Object {object_ref_hex}{made_at}: {self.default}.")

    @property
    def object_id(self) -> str:
        """The object's id, hex."""
        return self.object_ref_hex


class OwnerDiedError(ObjectLostError):
    """The process that owned the object is gone."""

    default = "the process that owned it is gone"


class ObjectFreedError(ObjectLostError):
    """The object was freed while somebody still asked for it."""

    default = "it was freed"


class ObjectFetchTimedOutError(ObjectLostError):
    """The object could not be fetched in time."""

    default = "it could not be fetched in time"


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """The object was released although a reference was left."""

    default = "it was released although a reference was left"


class ObjectReconstructionFailedError(ObjectLostError):
    """The object could not be made again.

    Attributes:
        reason: a code of whoever raises it, None if there is none.
        reason_message: why, in words.
    """

    default = "it could not be made again"

    def __init__(
        self,
        object_ref_hex: str = "",
        reason: int | None = None,
        reason_message: str | None = None,
        owner_address: bytes | str | None = None,
        call_site: str = "",
    ) -> None:
        self.reason = reason
        self.reason_message = reason_message
        super().__init__(object_ref_hex, owner_address, call_site)
        if reason_message:
            self.args = (f"{self.args[0]} {reason_message}",)
