"""Handles access reviews: the response is the review with its status; nothing is stored."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from podfit.api.objects import Object
from podfit.api.status import FieldError, bad_request, invalid, unprocessable
from podfit.apiserver.auth.authorize import Action, Authorization, Decision
from podfit.apiserver.auth.review_selectors import field_selector_text, parse_problems, selector_errors
from podfit.apiserver.auth.roles.rbac import Rbac
from podfit.apiserver.request import User

AUTHORIZATION = "authorization.k8s.io"


class Reviews:
    def __init__(self, authorization: Authorization, rbac: Rbac) -> None:
        self._authorization = authorization
        self._rbac = rbac

    def subject_access(self, review: Object) -> Object:
        """SubjectAccessReview: whether a given user may perform an action."""
        spec = review.get("spec") or {}
        _check_access(review, needs_subject=True)
        return self._answered(review, _user_of(spec), spec)

    def local_subject_access(self, review: Object, namespace: str) -> Object:
        """LocalSubjectAccessReview: whether a given user may perform an action in one namespace."""
        spec, meta = review.get("spec") or {}, review.get("metadata") or {}
        meta = {**meta, "namespace": meta.get("namespace") or namespace}
        review = {**review, "metadata": meta}
        _check_access(review, needs_subject=True, local=True)
        return self._answered(review, _user_of(spec), spec)

    def self_subject_access(self, review: Object, user: User) -> Object:
        """SelfSubjectAccessReview: whether the client may perform an action."""
        _check_access(review, needs_subject=False)
        return self._answered(review, user, review.get("spec") or {})

    def self_subject_rules(self, review: Object, user: User) -> Object:
        """SelfSubjectRulesReview: the rules that apply to the client in a namespace."""
        namespace = (review.get("spec") or {}).get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        rules, errors = self._rbac.rules_for(user, namespace)
        resource = [rule.to_json() for rule in rules if rule.resources]
        other = [{"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)} for rule in rules if rule.urls]
        is_node = user.name.startswith("system:node:")
        if is_node:
            errors = ["node authorizer does not support user rule resolution", *errors]
        status: Object = {"resourceRules": resource, "nonResourceRules": other, "incomplete": is_node or bool(errors)}
        if errors:
            status["evaluationError"] = errors[0] if len(errors) == 1 else "[" + ", ".join(errors) + "]"
        return _with_status({**review, "spec": {}}, status)

    def self_subject(self, review: Object, user: User) -> Object:
        """SelfSubjectReview: the identity of the client."""
        answered = _with_status(review, {"userInfo": user_info(user)})
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        answered["metadata"] = {**answered["metadata"], "creationTimestamp": now}
        return answered

    def _answered(self, review: Object, user: User, spec: Object) -> Object:
        decision = self._authorization.decide(user, action_of(spec))
        status = _access_status(decision)
        if ignored := parse_problems(spec.get("resourceAttributes") or {}):
            known = [status["evaluationError"]] if "evaluationError" in status else []
            status["evaluationError"] = "; ".join([*known, *ignored])
        return _with_status(review, status)


def user_info(user: User) -> Object:
    """authentication.k8s.io/v1 UserInfo."""
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in sorted(user.extra.items())}
    return info


def action_of(spec: Object) -> Action:
    """The action that a review is about."""
    other = spec.get("nonResourceAttributes")
    if other is not None:
        return Action(str(other.get("verb", "")), path=str(other.get("path", "")))
    requested = spec.get("resourceAttributes") or {}
    return Action(
        str(requested.get("verb", "")),
        str(requested.get("group", "")),
        str(requested.get("resource", "")),
        str(requested.get("subresource", "")),
        str(requested.get("namespace", "")),
        str(requested.get("name", "")),
        version=str(requested.get("version", "") or "v1"),
        field_selector=field_selector_text(requested.get("fieldSelector") or {}),
    )


def _user_of(spec: Object) -> User:
    extra = {str(key): tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(str(spec.get("user", "")), tuple(spec.get("groups") or ()), str(spec.get("uid", "")), extra)


def _access_status(decision: Decision) -> Object:
    status: Object = {"allowed": decision.allowed}
    if decision.denied:
        status["denied"] = True
    if decision.reason:
        status["reason"] = decision.reason
    if decision.error:
        status["evaluationError"] = decision.error
    return status


def _with_status(review: Object, status: Object) -> Object:
    answered: dict[str, Any] = {key: value for key, value in review.items() if key not in ("status", "metadata")}
    meta = {k: v for k, v in (review.get("metadata") or {}).items() if k != "managedFields"}
    return {**answered, "metadata": meta, "status": status}


def _check_access(review: Object, *, needs_subject: bool, local: bool = False) -> None:
    spec = review.get("spec") or {}
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors: list[FieldError] = []
    if resource is not None and other is not None:
        errors.append(
            invalid(
                "spec.nonResourceAttributes",
                _as_go(other),
                "cannot be specified in combination with resourceAttributes",
            )
        )
    if resource is None and other is None:
        errors.append(
            invalid(
                "spec.resourceAttributes",
                None,
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            )
        )
    if needs_subject and not spec.get("user") and not spec.get("groups"):
        errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    for field in ("fieldSelector", "labelSelector"):
        if resource is not None and (selector := resource.get(field)) is not None:
            errors += selector_errors(selector, field, f"spec.resourceAttributes.{field}")
    errors += _metadata_errors(review.get("metadata") or {}, local)
    if local and resource is not None and resource.get("namespace", "") != review["metadata"]["namespace"]:
        where = "spec.resourceAttributes.namespace"
        errors.append(invalid(where, resource.get("namespace", ""), "must match metadata.namespace"))
    if local and other is not None:
        errors.append(invalid("spec.nonResourceAttributes", _as_go(other), "disallowed on this kind of request"))
    if errors:
        # Kubernetes omits the kind in this error.
        raise unprocessable("", "", errors, AUTHORIZATION)


def _as_go(other: Object) -> Object:
    return {"Path": other.get("path") or "", "Verb": other.get("verb") or ""}


def _metadata_errors(meta: Object, local: bool) -> list[FieldError]:
    kept = {key for key in meta if meta[key] and key != "managedFields" and not (local and key == "namespace")}
    if not kept:
        return []
    return [invalid("metadata", meta, "must be empty except for namespace" if local else "must be empty")]
