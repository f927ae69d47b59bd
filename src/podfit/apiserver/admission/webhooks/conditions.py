"""Evaluates a hook's match conditions: CEL over the request and the permissions of its user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.api.cel.cost.budget import PER_CONDITIONS, Budget, YieldPolicy
from podfit.api.cel.evaluation.program import Environment, Program
from podfit.api.cel.library.authorization import Authorizer, Decision, ResourceCheck
from podfit.api.cel.parsing.syntax import BadExpression
from podfit.api.cel.types import (
    AUTHORIZER,
    BOOL,
    DYN,
    INT,
    RESOURCE_CHECK,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
)
from podfit.api.cel.values import Failed, Stopped
from podfit.api.objects import Object
from podfit.api.text.remember import remembered
from podfit.apiserver.admission.base import Attributes
from podfit.apiserver.auth.authorize import Action, Authorization
from podfit.apiserver.request import User
from podfit.apiserver.writing.evaluation import evaluated
from podfit.kit.concurrency.worker_threads import WorkerThreads

_ACCOUNT = "system:serviceaccount"


class ConditionFailed(Exception):
    """A match condition could not be evaluated; the hook's failure policy decides."""


# --- variables of a condition -----------------------------------------------------------------------------------------


def _object(type_name: str, /, **fields: Type) -> Type:
    return Type("object", name=f"kubernetes.{type_name}", fields=fields)


_KIND = _object("GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_RESOURCE = _object("GroupVersionResource", group=STRING, version=STRING, resource=STRING)
_TEXTS = list_of(STRING)
_LABELS = map_of(STRING, STRING)
_USER = _object("UserInfo", username=STRING, uid=STRING, groups=_TEXTS, extra=map_of(STRING, _TEXTS))
_REQUEST = _object(
    "AdmissionRequest",
    kind=_KIND,
    resource=_RESOURCE,
    subResource=STRING,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=_USER,
    dryRun=BOOL,
    options=DYN,
)
_CONDITION = _object(
    "NamespaceCondition", status=STRING, type=STRING, lastTransitionTime=TIMESTAMP, message=STRING, reason=STRING
)
_NAMESPACE_META = _object(
    "NamespaceMetadata",
    name=STRING,
    generateName=STRING,
    namespace=STRING,
    labels=_LABELS,
    annotations=_LABELS,
    UID=STRING,
    creationTimestamp=TIMESTAMP,
    deletionGracePeriodSeconds=INT,
    deletionTimestamp=TIMESTAMP,
    generation=INT,
    resourceVersion=STRING,
    finalizers=_TEXTS,
)
_NAMESPACE = _object(
    "Namespace",
    metadata=_NAMESPACE_META,
    spec=_object("NamespaceSpec", finalizers=_TEXTS),
    status=_object("NamespaceStatus", conditions=list_of(_CONDITION), phase=STRING),
)
VARIABLES: dict[str, Type] = {
    "object": DYN,
    "oldObject": DYN,
    "namespaceObject": _NAMESPACE,
    "request": _REQUEST,
    "authorizer": AUTHORIZER,
    "authorizer.requestResource": RESOURCE_CHECK,
}
_ENVIRONMENT = Environment(VARIABLES)


@remembered(1024)
def _program(text: str) -> Program:
    return _ENVIRONMENT.compile(text)


def condition_problem(text: str) -> str:
    """Why a condition does not compile; empty if it does."""
    try:
        program = _program(text)
    except BadExpression as error:
        return str(error)
    return "" if program.type == BOOL else f"must evaluate to bool but got {program.type}"


# --- evaluation -------------------------------------------------------------------------------------------------------


async def conditions_match(
    hook: Object, request: Object, attrs: Attributes, authorization: Authorization | None, threads: WorkerThreads
) -> bool:
    """Whether all conditions are true. One false condition decides, even if another cannot be evaluated."""
    conditions = hook.get("matchConditions")
    if not conditions:
        return True
    values = values_of(request, attrs, authorization)
    return await evaluated(threads, 0, lambda yielding: _match(conditions, values, yielding))


def values_of(request: Object, attrs: Attributes, authorization: Authorization | None) -> dict[str, Any]:
    """The variables of expressions about a request."""
    authorizer = Authorizer(_checker(attrs.user, authorization))
    return {
        "object": request.get("object"),
        "oldObject": request.get("oldObject"),
        "request": request,
        "authorizer": authorizer,
        "authorizer.requestResource": ResourceCheck(authorizer, _request_resource(attrs)),
    }


def _match(conditions: list[Object], values: Mapping[str, Any], yielding: YieldPolicy) -> bool:
    problems = []
    budget = Budget(PER_CONDITIONS, yielding=yielding)
    for condition in conditions:
        text = str(condition.get("expression", "")).strip()
        try:
            result = _program(text).run(values, budget)
        except BadExpression as error:
            problems.append(f"compilation error: {error}")
            continue
        except (Failed, Stopped) as error:
            problems.append(f"expression '{text}' resulted in error: {error}")
            result = None
        if budget.left < 0:
            why = "validation failed due to running out of cost budget, no further validation rules will be run"
            raise ConditionFailed(why)
        if result is False:
            return False
    if problems:
        raise ConditionFailed("[" + ", ".join(problems) + "]" if len(problems) > 1 else problems[0])
    return True


def _request_resource(attrs: Attributes) -> dict[str, str]:
    return {
        "group": attrs.kind.group,
        "resource": attrs.kind.plural,
        "subresource": attrs.subresource,
        "namespace": attrs.namespace,
        "name": attrs.name,
    }


def _checker(user: User, authorization: Authorization | None) -> Any:
    def check(account: str, attributes: Mapping[str, str], verb: str) -> Decision:
        if authorization is None:
            return Decision(False, error="no authorizer")
        decision = authorization.decide(_account(account) if account else user, _action(attributes, verb))
        return Decision(decision.allowed, decision.reason)

    return check


def _action(attributes: Mapping[str, str], verb: str) -> Action:
    if "path" in attributes:
        return Action(verb, path=attributes["path"])
    return Action(
        verb,
        attributes.get("group", ""),
        attributes.get("resource", ""),
        attributes.get("subresource", ""),
        attributes.get("namespace", ""),
        attributes.get("name", ""),
        version="*",
        field_selector=attributes.get("fieldSelector", ""),
    )


def _account(text: str) -> User:
    namespace = text.partition(":")[0]
    groups = (f"{_ACCOUNT}s", f"{_ACCOUNT}s:{namespace}", "system:authenticated")
    return User(f"{_ACCOUNT}:{text}", groups)
