"""Owner references that a client states twice are stored once, and it is warned."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.apiserver.strategy.checks import equal

_REST = (
    "; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your "
    "requests; duplicate UID(s) observed: "
)


def unique_owners(metadata: Object, *, admitted: bool = False) -> list[str]:
    """Removes repeated references in place. Returns the warning, if there were any; `admitted`: after admission."""
    owners = metadata.get("ownerReferences") or ()
    if len(owners) < 2:
        return []
    kept: list[Object] = []
    repeated = []
    for owner in owners:
        if any(equal(owner, one) for one in kept):
            repeated.append(owner.get("uid") or "")
        else:
            kept.append(owner)
    if not repeated:
        return []
    metadata["ownerReferences"] = kept
    when = " after mutating admission happens" if admitted else ""
    return [f".metadata.ownerReferences contains duplicate entries{when}{_REST}{', '.join(repeated)}"]
