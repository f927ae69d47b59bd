"""The reasons why a VM cannot have a size. Each kind maps to its own gRPC status, so that callers can distinguish
them."""

from __future__ import annotations


class Refused(Exception):
    """The size is refused and nothing was changed. The message names what refuses it, the amount in excess, and a
    remedy."""


class Invalid(Refused):
    """No VM can have this size: a fraction of a vCPU, a memory size of zero, an invalid annotation."""


class BeyondMaximum(Refused):
    """This VM cannot have the size, because of limits fixed when it was defined."""


class OutOfSlots(Refused):
    """Every memory slot of this VM is taken."""


class GuestUnsupported(Refused):
    """The guest has no driver or agent that the change needs."""


class GuestBusy(Refused):
    """The guest cannot release the memory now; retried until it can."""
