"""RBAC: roles and bindings, indexed by subject, so that a decision reads only the user's own bindings.

The server calls `changed` for every change of a Role, ClusterRole, RoleBinding or ClusterRoleBinding (and once for each
at start). ClusterRoles with an aggregation rule have the rules of the selected roles, regardless of their stored rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from podfit.api.objects import Object
from podfit.api.status import go_quote
from podfit.apiserver.auth.authorize import Action, Decision
from podfit.apiserver.auth.roles.rules import Rule, parse_rules
from podfit.apiserver.auth.selectors import selects
from podfit.apiserver.request import User

GROUP = "rbac.authorization.k8s.io"
_Subject = tuple[str, str]
"""("User", name) or ("Group", name); service accounts are users."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The permissions that one binding grants to one of its subjects."""

    binding: tuple[str, str]
    """(namespace, name); namespace "" for cluster bindings."""
    role: tuple[str, str]
    """(namespace, name) of the role; namespace "" for cluster roles."""
    described: str
    """`RoleBinding "b/ns" of Role "r" to User "u"`, as shown in reasons."""


class Rbac:
    def __init__(self, forget: Callable[[], None] = lambda: None) -> None:
        """`forget` is called after every change; pass `Authorization.forget`."""
        self._forget = forget
        self._roles: dict[tuple[str, str], tuple[Rule, ...]] = {}
        self._cluster_roles: dict[str, Object] = {}
        self._grants: dict[str, dict[_Subject, list[Grant]]] = {}
        self._aggregates: dict[str, tuple[Rule, ...]] | None = None

    def changed(self, kind: str, old: Object | None, new: Object | None) -> None:
        """`kind` is Role, ClusterRole, RoleBinding or ClusterRoleBinding; None means that it did not exist or was
        deleted.
        """
        if kind in ("Role", "ClusterRole"):
            self._role_changed(kind, old, new)
        else:
            if old is not None:
                self._remove_binding(old)
            if new is not None:
                self._add_binding(kind, new)
        self._forget()

    def clear(self) -> None:
        self._roles.clear()
        self._cluster_roles.clear()
        self._grants.clear()
        self._aggregates = None
        self._forget()

    def decide(self, user: User, action: Action) -> Decision:
        errors: list[str] = []
        for grant in self._grants_of(user, action.namespace):
            rules = self.rules_of(grant.role)
            if rules is None:
                errors.append(_not_found(grant.role))
                continue
            if any(rule.allows(action) for rule in rules):
                return Decision(True, f"RBAC: allowed by {grant.described}")
        if not errors:
            return Decision(False)
        distinct = list(dict.fromkeys(errors))
        text = distinct[0] if len(distinct) == 1 else "[" + ", ".join(distinct) + "]"
        return Decision(False, f"RBAC: {text}")

    def rules_for(self, user: User, namespace: str) -> tuple[list[Rule], list[str]]:
        """All rules that apply to the user in the namespace, and errors from resolving bindings."""
        rules: list[Rule] = []
        errors: list[str] = []
        for grant in self._grants_of(user, namespace):
            found = self.rules_of(grant.role)
            if found is None:
                errors.append(_not_found(grant.role))
            else:
                rules.extend(found)
        return rules, list(dict.fromkeys(errors))

    def rules_of(self, role: tuple[str, str]) -> tuple[Rule, ...] | None:
        if not role[0]:
            aggregated = self._aggregated().get(role[1])
            if aggregated is not None:
                return aggregated
        return self._roles.get(role)

    def stale_aggregates(self) -> list[tuple[str, list[Object]]]:
        """ClusterRoles whose stored rules differ from those that their aggregation rule selects: (name, rules to
        store).
        """
        stale = []
        for name, rules in self._aggregated().items():
            if set(rules) != set(self._roles[("", name)]):
                stale.append((name, [rule.to_json() for rule in rules]))
        return stale

    def _grants_of(self, user: User, namespace: str) -> Iterator[Grant]:
        subjects = [("User", user.name), *(("Group", group) for group in user.groups)]
        for scope in ("", namespace) if namespace else ("",):
            table = self._grants.get(scope)
            if table:
                for subject in subjects:
                    yield from table.get(subject, ())

    def _role_changed(self, kind: str, old: Object | None, new: Object | None) -> None:
        meta = (new or old or {}).get("metadata") or {}
        name = meta.get("name", "")
        key = (meta.get("namespace", "") if kind == "Role" else "", name)
        if new is None:
            self._roles.pop(key, None)
        else:
            self._roles[key] = parse_rules(new.get("rules"))
        if kind == "ClusterRole":
            self._aggregates = None
            if new is None:
                self._cluster_roles.pop(name, None)
            else:
                self._cluster_roles[name] = new

    def _aggregated(self) -> dict[str, tuple[Rule, ...]]:
        if self._aggregates is None:
            self._aggregates = {}
            holders = {n: role for n, role in self._cluster_roles.items() if role.get("aggregationRule")}
            selected = {name: self._selected(role) for name, role in holders.items()}
            for name in holders:
                self._aggregates[name] = tuple(dict.fromkeys(self._collect(name, selected)))
        return self._aggregates

    def _selected(self, role: Object) -> list[str]:
        """The names of the roles that an aggregation rule selects."""
        selectors = role["aggregationRule"].get("clusterRoleSelectors") or ()
        labels = {
            name: (other.get("metadata") or {}).get("labels") or {} for name, other in self._cluster_roles.items()
        }
        return sorted(name for name in labels if any(selects(selector, labels[name]) for selector in selectors))

    def _collect(self, name: str, selected: dict[str, list[str]]) -> Iterator[Rule]:
        """The rules of all roles that the aggregation rule selects, ordered by name. A selected role may aggregate
        others in turn; each is included once.
        """
        seen, waiting = {name}, [*reversed(selected[name])]
        while waiting:
            other = waiting.pop()
            if other in seen:
                continue
            seen.add(other)
            if other in selected:
                waiting += reversed(selected[other])
            else:
                yield from self._roles[("", other)]

    def _add_binding(self, kind: str, binding: Object) -> None:
        meta = binding.get("metadata") or {}
        namespace = meta.get("namespace", "") if kind == "RoleBinding" else ""
        name = meta.get("name", "")
        ref = binding.get("roleRef") or {}
        role = (namespace if ref.get("kind") == "Role" else "", ref.get("name", ""))
        shown = f"{name}/{namespace}" if namespace else name
        head = f"{kind} {go_quote(shown)} of {ref.get('kind')} {go_quote(role[1])} to "
        table = self._grants.setdefault(namespace, {})
        for subject in binding.get("subjects") or ():
            key, words = _subject(subject, namespace)
            table.setdefault(key, []).append(Grant((namespace, name), role, head + words))

    def _remove_binding(self, binding: Object) -> None:
        meta = binding.get("metadata") or {}
        namespace, name = meta.get("namespace", ""), meta.get("name", "")
        table = self._grants.get(namespace)
        if table is None:
            return
        for subject in binding.get("subjects") or ():
            key, _ = _subject(subject, namespace)
            kept = [grant for grant in table.get(key, ()) if grant.binding != (namespace, name)]
            if kept:
                table[key] = kept
            else:
                table.pop(key, None)
        if not table:
            del self._grants[namespace]


def _subject(subject: dict[str, Any], binding_namespace: str) -> tuple[_Subject, str]:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind == "ServiceAccount":
        namespace = subject.get("namespace") or binding_namespace
        return (
            "User",
            f"system:serviceaccount:{namespace}:{name}",
        ), f"ServiceAccount {go_quote(f'{name}/{namespace}')}"
    return (kind, name), f"{kind} {go_quote(name)}"


def _not_found(role: tuple[str, str]) -> str:
    return f'{"role" if role[0] else "clusterrole"}.{GROUP} "{role[1]}" not found'
