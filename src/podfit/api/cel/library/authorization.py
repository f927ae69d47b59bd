"""`authorizer`: authorization checks, composed by method calls.

The value carries its backend: `Authorizer(check)`, where `check` takes the service account in question (or nothing, for
the user of the request), the attributes of the check, and the verb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from podfit.api.cel.library.functions import Library
from podfit.api.cel.values import Opaque

LIBRARY = Library()
_add = LIBRARY.add
_NAME = "kubernetes.authorization."


@dataclass(frozen=True, slots=True)
class Decision(Opaque):
    type_name = _NAME + "Decision"
    allowed: bool
    reason: str = ""
    error: str = ""


Check = Callable[[str, Mapping[str, str], str], Decision]


@dataclass(frozen=True, slots=True)
class Authorizer(Opaque):
    type_name = _NAME + "Authorizer"
    decide: Check
    account: str = ""


@dataclass(frozen=True, slots=True)
class _Question(Opaque):
    authorizer: Authorizer
    attributes: Mapping[str, str]

    def with_field(self, name: str, value: str) -> Any:
        return type(self)(self.authorizer, {**self.attributes, name: value})


class PathCheck(_Question):
    __slots__ = ()
    type_name = _NAME + "PathCheck"


class GroupCheck(_Question):
    __slots__ = ()
    type_name = _NAME + "GroupCheck"


class ResourceCheck(_Question):
    __slots__ = ()
    type_name = _NAME + "ResourceCheck"


def _setter(name: str) -> Callable[[ResourceCheck, str], Any]:
    return lambda question, value: question.with_field(name, value)


def _resource(question: GroupCheck, resource: str) -> ResourceCheck:
    return ResourceCheck(question.authorizer, {**question.attributes, "resource": resource})


def _check(question: _Question, verb: str) -> Decision:
    return question.authorizer.decide(question.authorizer.account, question.attributes, verb)


def _account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    return Authorizer(authorizer.decide, f"{namespace}:{name}")


_add("path", "authorizer_path", "Authorizer.(string) PathCheck", lambda who, path: PathCheck(who, {"path": path}))
_add("group", "authorizer_group", "Authorizer.(string) GroupCheck", lambda who, name: GroupCheck(who, {"group": name}))
_add("serviceAccount", "authorizer_serviceaccount", "Authorizer.(string, string) Authorizer", _account)
_add("resource", "groupcheck_resource", "GroupCheck.(string) ResourceCheck", _resource)
for _field in ("subresource", "namespace", "name"):
    _add(_field, f"resourcecheck_{_field}", "ResourceCheck.(string) ResourceCheck", _setter(_field))
for _field in ("fieldSelector", "labelSelector"):
    _id = f"authorizer_{_field.lower()}"
    _add(_field, _id, "ResourceCheck.(string) ResourceCheck", _setter(_field))
_add("check", "pathcheck_check", "PathCheck.(string) Decision", _check)
_add("check", "resourcecheck_check", "ResourceCheck.(string) Decision", _check)
_add("errored", "decision_errored", "Decision.() bool", lambda decision: bool(decision.error))
_add("error", "decision_error", "Decision.() string", lambda decision: decision.error)
_add("allowed", "decision_allowed", "Decision.() bool", lambda decision: decision.allowed)
_add("reason", "decision_reason", "Decision.() string", lambda decision: decision.reason)
