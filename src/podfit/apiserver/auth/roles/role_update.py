"""Updates roles and bindings of an older version: missing permissions are added, none are removed.

A role with `rbac.authorization.kubernetes.io/autoupdate: "false"` is not changed. Pure.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.apiserver.auth.roles.rules import parse_rules, uncovered

GROUP = "rbac.authorization.k8s.io"
_AUTO = "rbac.authorization.kubernetes.io/autoupdate"


def completed(stored: Object, wanted: Object) -> Object | None:
    """`stored` with the missing rules or subjects of `wanted`; None if none are missing, or it must not be changed."""
    if (stored["metadata"].get("annotations") or {}).get(_AUTO) != "true" or stored.get("aggregationRule"):
        return None
    if "roleRef" in wanted:
        return _with_subjects(stored, wanted)
    lacking = uncovered(parse_rules(stored.get("rules")), parse_rules(wanted.get("rules")))
    if not lacking:
        return None
    return {**stored, "rules": [*(stored.get("rules") or []), *(each.to_json() for each in lacking)]}


def _with_subjects(stored: Object, wanted: Object) -> Object | None:
    if stored.get("roleRef") != wanted["roleRef"]:
        return None
    held = stored.get("subjects") or []
    lacking = [one for one in wanted.get("subjects") or () if one not in held]
    return {**stored, "subjects": [*held, *lacking]} if lacking else None
