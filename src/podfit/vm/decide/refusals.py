"""Why a VM cannot have a size. Each kind maps to its own gRPC status, so that callers can distinguish them."""

from __future__ import annotations


class Refused(Exception):
    """The size is refused and nothing was changed; the message says by what, by how much, and how to resolve it."""


class Invalid(Refused):
    """No VM can have this size: a fraction of a vCPU, a memory size of zero, an invalid annotation."""


class BeyondMaximum(Refused):
    """This VM cannot have it, because of limits fixed when it was defined."""


class OutOfSlots(Refused):
    """Every memory slot of this VM is taken."""


class GuestUnsupported(Refused):
    """The guest has no driver or agent that the change needs."""


class GuestBusy(Refused):
    """The guest cannot release the memory now; retried until it can."""
