"""Prevents privilege escalation: a user cannot grant permissions in roles and bindings that the user lacks.

It cannot be disabled: in Kubernetes this check is part of the registry. Users with the verb `escalate` (on roles) or
`bind` (on the bound role) are exempt.
"""

from __future__ import annotations

from collections.abc import Sequence

from podfit.api.objects import Object
from podfit.api.status import not_found
from podfit.apiserver.admission.base import CREATE, UPDATE, Attributes, Plugin
from podfit.apiserver.auth.authorize import MASTERS, Action, Authorization
from podfit.apiserver.auth.roles.rbac import GROUP, Rbac
from podfit.apiserver.auth.roles.rules import Rule, parse_rules, quoted, uncovered

_ROLES = ("roles", "clusterroles")
_BINDINGS = ("rolebindings", "clusterrolebindings")
_OF_COLLECTION = {"ownerReferences", "finalizers", "managedFields", "resourceVersion", "selfLink"}
_EVERYTHING = (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",)))


class RbacEscalation(Plugin):
    name = "RbacEscalation"

    def __init__(self, rbac: Rbac, authorization: Authorization) -> None:
        self._rbac = rbac
        self._authorization = authorization

    def handles(self, attrs: Attributes) -> bool:
        return (
            attrs.kind.group == GROUP
            and attrs.kind.plural in (*_ROLES, *_BINDINGS)
            and attrs.operation in (CREATE, UPDATE)
        )

    async def validate(self, attrs: Attributes) -> None:
        if MASTERS in attrs.user.groups or attrs.object is None:
            return
        if attrs.old is not None and _serves_collection_only(attrs.object, attrs.old):
            return
        if attrs.kind.plural in _ROLES:
            self._check_role(attrs, attrs.object, attrs.old or {})
        else:
            self._check_binding(attrs, attrs.object)

    def _check_role(self, attrs: Attributes, new: Object, old: Object) -> None:
        if self._may(attrs, "escalate", attrs.kind.plural, attrs.display_name):
            return
        self._confirm(attrs, parse_rules(new.get("rules")))
        aggregates = new.get("aggregationRule") or old.get("aggregationRule")
        if aggregates and self._lacking(attrs, _EVERYTHING):
            raise attrs.forbid("must have cluster-admin privileges to use an aggregationRule")

    def _check_binding(self, attrs: Attributes, new: Object) -> None:
        ref = new.get("roleRef") or {}
        name = str(ref.get("name", ""))
        resource = "roles" if ref.get("kind") == "Role" else "clusterroles"
        if self._may(attrs, "bind", resource, name):
            return
        role = (attrs.namespace if resource == "roles" else "", name)
        rules = self._rbac.rules_of(role)
        if rules is None:
            # Kubernetes names the kind that is written, not that of the role.
            raise not_found(attrs.kind.plural, name, GROUP)
        self._confirm(attrs, rules)

    def _may(self, attrs: Attributes, verb: str, resource: str, name: str) -> bool:
        action = Action(verb, GROUP, resource, namespace=attrs.namespace, name=name)
        return self._authorization.decide(attrs.user, action).allowed

    def _lacking(self, attrs: Attributes, wanted: Sequence[Rule]) -> list[Rule]:
        held, _ = self._rbac.rules_for(attrs.user, attrs.namespace)
        return uncovered(held, wanted)

    def _confirm(self, attrs: Attributes, wanted: Sequence[Rule]) -> None:
        lacking = self._lacking(attrs, wanted)
        if lacking:
            shown = "\n".join(sorted({str(rule) for rule in lacking}))
            raise attrs.forbid(
                f'user "{attrs.user.name}" (groups={quoted(attrs.user.groups)}) is attempting to grant '
                f"RBAC permissions not currently held:\n{shown}"
            )


def _serves_collection_only(new: Object, old: Object) -> bool:
    """Whether an update changes only fields used by garbage collection. Any other change may grant permissions: a label
    can add a role to those that aggregate it."""
    if any(new.get(field) != old.get(field) for field in (new.keys() | old.keys()) - {"metadata"}):
        return False
    mine, stored = new["metadata"], old["metadata"]
    return all(mine.get(field) == stored.get(field) for field in (mine.keys() | stored.keys()) - _OF_COLLECTION)
