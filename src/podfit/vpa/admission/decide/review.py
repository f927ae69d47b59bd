"""Answers a whole admission request: pods are patched, autoscaler objects defaulted and validated.

On any error a pod is admitted unchanged: the autoscaler never keeps a pod from starting.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity, QuantityError
from podfit.api.registry.vpa_versions import V1ALPHA1, to_v1
from podfit.api.status import INTERNAL, FieldError, unprocessable
from podfit.vpa.admission.decide.patches import NO_BOOSTS, Wanted, pod_patch
from podfit.vpa.admission.decide.shape import POD, REVIEW, VPA, ShapeError, check_shape
from podfit.vpa.admission.decide.validate import allowed_for, validate
from podfit.vpa.model.changing.boost import BoostError
from podfit.vpa.model.changing.jsonpatch import Patch, add
from podfit.vpa.model.fitting.limitranges import merged
from podfit.vpa.model.fitting.unlimited import required_limits
from podfit.vpa.model.objects.matching import (
    SelectorOf,
    Target,
    TopmostOf,
    acts_on_creation,
    by_target,
    controlling_vpa,
)
from podfit.vpa.model.objects.policy import container_policies, has_boost, recommends_for, removes_limits

GROUP = "autoscaling.k8s.io"
AUTO_WARNING = (
    'UpdateMode "Auto" is deprecated and will be removed in a future API version. Use explicit update modes like '
    '"Recreate", "Initial", or "InPlaceOrRecreate" instead. '
    "See https://github.com/kubernetes/autoscaler/issues/8424 for more details."
)


@dataclass(frozen=True, slots=True)
class ReviewContext:
    """Everything besides the request that a response depends on."""

    vpas: Mapping[Target, list[ObjectView]]
    selector_of: SelectorOf
    topmost_of: TopmostOf
    limit_ranges: Iterable[ObjectView] = ()
    gates: Mapping[str, bool] = field(default_factory=dict)
    max_boost: Quantity | None = None
    change_without_recommendation: bool = False
    """Annotate pods, and scale containers to a LimitRange, without a recommendation, as upstream does."""
    quotas: Iterable[ObjectView] = ()


class Chosen(NamedTuple):
    """A pod's autoscaler and its recommendation, if they were looked up earlier."""

    vpa: ObjectView | None
    """None if the pod stays unchanged."""
    boosts: Mapping[str, Quantity] = NO_BOOSTS
    """The CPU that each container starts with, if its full boost does not fit."""
    wanted: Wanted | None = None
    """The recommendation for its containers, if it was computed before."""


@dataclass(frozen=True, slots=True)
class ReviewAnswer:
    """The response to a request; `patch` is None if nothing changes."""

    uid: str
    allowed: bool = True
    patch: Patch | None = None
    status: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    outcome: str = "skipped"
    """applied, skipped or error, as in the metrics."""
    why: str = ""

    def to_response(self) -> dict[str, Any]:
        """The AdmissionReview without the patch, which is base64-encoded."""
        response: dict[str, Any] = {"uid": self.uid, "allowed": self.allowed}
        if self.status is not None:
            response["status"] = self.status
        if self.patch:
            response["patchType"] = "JSONPatch"
        if self.warnings:
            response["warnings"] = list(self.warnings)
        return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}


def index_vpas(vpas: Iterable[ObjectView]) -> dict[Target, list[ObjectView]]:
    """An index, by target, of the autoscalers that act on new pods."""
    return by_target(vpa for vpa in vpas if acts_on_creation(vpa))


def answer(body: bytes | str, world: ReviewContext) -> ReviewAnswer:
    """Decodes and answers a request body. If it cannot be decoded, the request is admitted."""
    try:
        review = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        return ReviewAnswer("", outcome="error", why=f"the AdmissionReview cannot be read: {error}")
    return answer_to(review, world)


def answer_to(review: Any, world: ReviewContext, chosen: Chosen | None = None) -> ReviewAnswer:
    """Answers a decoded request. `chosen` is the pod's autoscaler, if it was looked up earlier."""
    try:
        check_shape(review, REVIEW, "AdmissionReview")
        request = review["request"]
        uid = request.get("uid") or ""
        resource = request.get("resource") or {}
        kind = (resource.get("group") or "", resource.get("resource"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return ReviewAnswer("", outcome="error", why=f"the AdmissionReview cannot be read: {error}")
    try:
        if kind == ("", "pods"):
            return admit_pod(request, uid, resource, world, chosen)
        if kind == (GROUP, "verticalpodautoscalers"):
            return admit_vpa(request, uid, world)
    except (BoostError, QuantityError, KeyError, TypeError, AttributeError, ValueError) as error:
        return ReviewAnswer(uid, outcome="error", why=str(error))
    return ReviewAnswer(uid, outcome="error", why="not a resource this webhook handles")


def admit_pod(
    request: ObjectView, uid: str, resource: ObjectView, world: ReviewContext, chosen: Chosen | None = None
) -> ReviewAnswer:
    if resource.get("version") != "v1":
        return ReviewAnswer(uid, outcome="error", why="only v1 Pods are supported")
    pod = request.get("object") or {}
    check_shape(pod, POD, "Pod")
    meta = dict(pod.get("metadata") or {})
    if not meta.get("name"):
        meta["name"] = (meta.get("generateName") or "") + "%"
        meta["namespace"] = request.get("namespace")
        pod = {**pod, "metadata": meta}
    if chosen is None:
        chosen = Chosen(controlling_vpa(pod, world.vpas, world.selector_of, world.topmost_of))
    vpa = chosen.vpa
    if vpa is None:
        return ReviewAnswer(uid, why="no autoscaler controls this pod")
    boosting = bool(world.gates.get("CPUStartupBoost"))
    boosted = boosting and has_boost(vpa)
    if not world.change_without_recommendation and not boosted and not recommends_for(vpa, pod):
        return ReviewAnswer(uid, why="its autoscaler has no recommendation for this pod")
    bounds = merged(world.limit_ranges, meta.get("namespace") or "", world.change_without_recommendation)
    limited: Collection[str] = ()
    if any(removes_limits(policy) for policy in container_policies(vpa)):
        limited = required_limits(meta.get("namespace") or "", world.limit_ranges, world.quotas)
    patch = pod_patch(pod, vpa, bounds, boosting, world.max_boost, limited, chosen.boosts, chosen.wanted)
    return ReviewAnswer(uid, patch=patch, outcome="applied")


def admit_vpa(request: ObjectView, uid: str, world: ReviewContext) -> ReviewAnswer:
    given = request.get("object") or {}
    alpha = given.get("apiVersion") == V1ALPHA1
    vpa = as_v1(given)
    # v1alpha1 has no other name for this mode.
    warnings = (AUTO_WARNING,) if _deprecated(vpa) and not alpha else ()
    errors = _errors_of(vpa, as_v1(request.get("oldObject")), world)
    if errors:
        errors = [replace(error, path=_alpha_path(error.path)) for error in errors] if alpha else errors
        status = unprocessable("VerticalPodAutoscaler", request.get("name") or _name_of(vpa), errors, GROUP).to_status()
        shown = {key: value for key, value in status.items() if key not in ("kind", "apiVersion")}
        return ReviewAnswer(uid, False, None, shown, warnings, "error", status["message"])
    policy = (vpa.get("spec") or {}).get("updatePolicy")
    default = {"mode" if alpha else "updateMode": "Recreate"}
    patch = [add("/spec/updatePolicy", default)] if policy is None else None
    return ReviewAnswer(uid, patch=patch, warnings=warnings, outcome="applied" if patch else "skipped")


def as_v1(vpa: Any) -> Any:
    """Converts a v1alpha1 object to v1. An object that cannot be converted is returned unchanged, and fails the shape
    check."""
    try:
        return to_v1(vpa) if vpa and vpa.get("apiVersion") == V1ALPHA1 else vpa
    except (AttributeError, TypeError):
        return vpa


def _alpha_path(path: str) -> str:
    return path.replace(".updateMode", ".mode").replace(".containerName", ".name")


def _errors_of(vpa: ObjectView, old: ObjectView | None, world: ReviewContext) -> list[FieldError]:
    try:
        check_shape(vpa, VPA, "VerticalPodAutoscaler")
    except ShapeError as error:
        return [FieldError(INTERNAL, ".", str(error))]
    return validate(vpa, allowed_for(world.gates, old))


def _deprecated(vpa: ObjectView) -> bool:
    spec = vpa.get("spec")
    policy = spec.get("updatePolicy") if isinstance(spec, dict) else None
    return isinstance(policy, dict) and policy.get("updateMode") == "Auto"


def _name_of(vpa: ObjectView) -> str:
    meta = vpa.get("metadata")
    return str(meta.get("name") or "") if isinstance(meta, dict) else ""
