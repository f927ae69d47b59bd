"""A hook's match conditions: CEL over the request, and what the asking user may do.

`authorizer` is a value that grows by method calls (`authorizer.group("apps").resource("deployments").check("get")`);
`authorizer.requestResource` starts from what the request is about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from podfit.api.cel import BadExpression, Failed, compiled
from podfit.api.status import Object
from podfit.apiserver.admission.base import Attributes
from podfit.apiserver.auth.authorize import Action, Authorization
from podfit.apiserver.request import User

_WHO = "k8s.authorizer"
_ACCOUNT = "system:serviceaccount"


class ConditionFailed(Exception):
    """A match condition could not be evaluated; the hook's failure policy decides what that means."""


def conditions_match(hook: Object, request: Object, attrs: Attributes, authorization: Authorization | None) -> bool:
    """All conditions are true. A false one decides even when another cannot be evaluated."""
    conditions = hook.get("matchConditions")
    if not conditions:
        return True
    variables = {
        "object": request.get("object"),
        "oldObject": request.get("oldObject"),
        "request": request,
        "authorizer": {_WHO: "", "requestResource": _request_resource(attrs)},
    }
    functions = _functions(attrs.user, authorization) if authorization is not None else None
    problems = []
    for condition in conditions:
        try:
            result = compiled(str(condition.get("expression", ""))).evaluate(variables, functions)
        except (BadExpression, Failed) as error:
            problems.append(f"match condition '{condition.get('name')}': {error}")
            continue
        if result is not True:
            return False
    if problems:
        raise ConditionFailed("[" + ", ".join(problems) + "]" if len(problems) > 1 else problems[0])
    return True


def _request_resource(attrs: Attributes) -> Object:
    return {
        _WHO: "",
        "group": attrs.kind.group,
        "resource": attrs.kind.plural,
        "subresource": attrs.subresource,
        "namespace": attrs.namespace,
        "name": attrs.name,
    }


def _functions(user: User, authorization: Authorization) -> dict[str, Callable[..., Any]]:
    def check(asked: Object, verb: str) -> Object:
        account = str(asked.get(_WHO) or "")
        decision = authorization.decide(_account(account) if account else user, _action(asked, verb))
        return {"allowed": decision.allowed, "reason": decision.reason}

    return {
        "path": lambda asked, path: {_WHO: asked[_WHO], "path": path},
        "group": lambda asked, group: {_WHO: asked[_WHO], "group": group},
        "serviceAccount": lambda asked, namespace, name: {_WHO: f"{namespace}:{name}"},
        **{word: _setter(word) for word in ("resource", "subresource", "namespace", "name")},
        "fieldSelector": _setter("fields"),
        "labelSelector": _setter("labels"),
        "check": check,
        "allowed": lambda decision: decision["allowed"],
        "reason": lambda decision: decision["reason"],
        "errored": lambda decision: False,
        "error": lambda decision: "",
    }


def _setter(word: str) -> Callable[[Object, str], Object]:
    return lambda asked, value: {**asked, word: value}


def _action(asked: Object, verb: str) -> Action:
    if "path" in asked:
        return Action(verb, path=asked["path"])
    return Action(
        verb,
        asked.get("group", ""),
        asked.get("resource", ""),
        asked.get("subresource", ""),
        asked.get("namespace", ""),
        asked.get("name", ""),
        version="*",
        field_selector=asked.get("fields", ""),
    )


def _account(text: str) -> User:
    namespace = text.partition(":")[0]
    groups = (f"{_ACCOUNT}s", f"{_ACCOUNT}s:{namespace}", "system:authenticated")
    return User(f"{_ACCOUNT}:{text}", groups)
