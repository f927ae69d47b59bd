"""Why a VM cannot get a size. Each kind becomes a gRPC status of its own, so that callers can tell them apart."""

from __future__ import annotations


class Refused(Exception):
    """The size is refused and nothing was changed; the message says by whom, by how much, and what would help."""


class Invalid(Refused):
    """No VM can ever have this size: a fraction of a vCPU, a memory size of zero, an annotation that does not parse."""


class BeyondMaximum(Refused):
    """This VM cannot have it, because of what was fixed when it was defined."""


class OutOfSlots(Refused):
    """Every memory slot of this VM is taken."""


class GuestLacks(Refused):
    """The guest has no driver or agent that the change needs."""


class GuestBusy(Refused):
    """The guest cannot release the memory now; retried until it can."""
