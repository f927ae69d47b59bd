"""Authorizes requests by a chain of authorizers. The first that allows the action decides; if none does, the response
is 403.

Decisions are cached by (user, action), if both are short. `Authorization.forget` clears the cache and must be called
when roles or bindings change. A node's decisions depend on the pods bound to it, so they are not cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from podfit.api.selectors import FieldSelector, SelectorError
from podfit.api.status import ApiError, forbidden, go_quote
from podfit.apiserver.request import User

MASTERS = "system:masters"
_REMEMBERED = 16384
_LONGEST = 512


class Action(msgspec.Struct, frozen=True, gc=False):
    """The attributes of an action: a verb on a resource, or a verb on a path (`path` set, `resource` empty).

    Verbs are lower-case: get, list, watch, create, update, patch, delete, deletecollection, impersonate, bind, …; for
    paths the HTTP method. For Namespaces themselves `namespace` is the name, as in Kubernetes.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    version: str = "v1"
    field_selector: str = ""
    """The field selector of a list, watch or deletecollection; used by the node authorizer."""


class Decision(NamedTuple):
    allowed: bool
    reason: str = ""
    denied: bool = False
    """Whether an authorizer denied explicitly, as opposed to having no opinion."""
    error: str = ""
    """Errors during evaluation, e.g. bindings to roles that do not exist."""


ALLOWED = Decision(True)
NO_OPINION = Decision(False)


class Authorizer(Protocol):
    def decide(self, user: User, action: Action) -> Decision: ...


class Authorization:
    """The chain of authorizers. The server calls `check` for every request."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = tuple(authorizers)
        self._decided: dict[tuple[str, tuple[str, ...], Action], Decision] = {}

    def check(self, user: User, action: Action) -> None:
        """Returns if allowed, raises 403 otherwise."""
        if MASTERS in user.groups or self._may_any(user, action):
            return
        decision = self.decide(user, action)
        if not decision.allowed:
            raise refusal(user, with_selected_name(action), decision.reason)

    def decide(self, user: User, action: Action) -> Decision:
        if MASTERS in user.groups:
            return ALLOWED
        action = with_selected_name(action)
        if user.name.startswith("system:node:"):
            return self._ask(user, action)
        # Extra fields never influence the decision, so name and groups identify the user.
        if len(action.path) + len(action.name) + len(action.field_selector) > _LONGEST:
            # Limiting only the number of entries would let a client fill memory with long names.
            return self._ask(user, action)
        key = (user.name, user.groups, action)
        decision = self._decided.get(key)
        if decision is None:
            if len(self._decided) >= _REMEMBERED:
                self._decided.clear()
            decision = self._decided[key] = self._ask(user, action)
        return decision

    def _may_any(self, user: User, action: Action) -> bool:
        """Whether the user may do this to objects of any name. One cached decision covers the thousands of pods of a
        controller.
        """
        if not (action.name or action.field_selector) or user.name.startswith("system:node:"):
            return False
        any_name = msgspec.structs.replace(action, name="", field_selector="")
        return self.decide(user, any_name).allowed

    def forget(self) -> None:
        self._decided.clear()

    def _ask(self, user: User, action: Action) -> Decision:
        reasons, errors = [], []
        for authorizer in self._authorizers:
            decision = authorizer.decide(user, action)
            if decision.allowed or decision.denied:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
            if decision.error:
                errors.append(decision.error)
        return Decision(False, "\n".join(reasons), False, errors[0] if len(errors) == 1 else _aggregate(errors))


def with_selected_name(action: Action) -> Action:
    """Sets the name in the action for a list or watch by `metadata.name=x`, which is authorized as a request for x."""
    if not action.field_selector or action.name or action.verb not in ("list", "watch", "deletecollection"):
        return action
    name = demanded(action.field_selector, "metadata.name")
    return msgspec.structs.replace(action, name=name) if name else action


def demanded(selector: str, field: str) -> str:
    """The value that a selector requires of a field; "" if there is none, or if the selector is invalid. It is parsed
    like the selector of the list itself: a value may contain an escaped comma and then text like that of another
    term."""
    try:
        return FieldSelector.parse(selector).exact(field) or ""
    except SelectorError:
        return ""


def refusal(user: User, action: Action, reason: str = "") -> ApiError:
    """403 with Kubernetes' message."""
    who = f"User {go_quote(user.name)} cannot {action.verb} "
    if action.path:
        why = f"{who}path {go_quote(action.path)}"
    else:
        resource = f"{action.resource}/{action.subresource}" if action.subresource else action.resource
        where = f"in the namespace {go_quote(action.namespace)}" if action.namespace else "at the cluster scope"
        why = f"{who}resource {go_quote(resource)} in API group {go_quote(action.group)} {where}"
    if reason:
        why += f": {reason}"
    return forbidden(action.resource, action.name if action.resource else "", why, action.group)


def _aggregate(errors: list[str]) -> str:
    return "[" + ", ".join(dict.fromkeys(errors)) + "]" if errors else ""
