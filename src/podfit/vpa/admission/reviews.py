"""Answers admission reviews of pods and autoscalers: finds the autoscaler that controls a pod, and computes its size.

On any error a pod is admitted unchanged.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.api.selectors import LabelSelector
from podfit.api.status import ApiError
from podfit.client.transport import Unreachable
from podfit.vpa.admission.decide.gate import gate_patch, must_wait, requires
from podfit.vpa.admission.decide.review import Chosen, ReviewAnswer, ReviewContext, answer, answer_to, as_v1
from podfit.vpa.admission.fitting import Boosting, Size
from podfit.vpa.model.changing.boost import BoostError
from podfit.vpa.model.changing.jsonpatch import Patch, add, annotate
from podfit.vpa.model.changing.notes import FITTED
from podfit.vpa.model.changing.unowned import may_have_unowned, unowned, warning
from podfit.vpa.model.fitting.limitranges import NO_BOUNDS, merged
from podfit.vpa.model.fitting.own_size import at_own_size
from podfit.vpa.model.objects.matching import controlling_vpa, own_selector
from podfit.vpa.model.objects.policy import has_boost, recommends_for
from podfit.vpa.observe.caches import WELL_KNOWN

if TYPE_CHECKING:
    from podfit.vpa.admission.loop import AdmissionWebhook

log = logging.getLogger(__name__)
_Form = TypeVar("_Form")

LEARNING_S = 1.0
"""How long a pod may be delayed to find its owner."""


class SizedPod(NamedTuple):
    vpa: Mapping[str, Any] | None
    """The autoscaler that controls a pod."""
    size: Size
    """The pod's new size."""


NOBODY = SizedPod(None, Size(None))


class Reviews:
    def __init__(self, webhook: AdmissionWebhook) -> None:
        self._of = webhook
        self._known: ReviewContext | None = None

    async def review(self, body: bytes) -> bytes:
        """The response to an AdmissionReview."""
        return await self._answer(body, lambda verdict: msgspec.json.encode(response_of(verdict)))

    def may_skip(self, resource: tuple[str, str], namespace: str, obj: Object | None) -> bool:
        """Whether an API server of this process may skip the review of a pod: its namespace has no autoscaler, and it
        does not require one."""
        if resource != ("", "pods") or namespace in self._of.index.namespaces or obj is None or must_wait(obj, None):
            return False
        self._of.measures.answered("skipped", "Pod", 0.0)
        return True

    async def answer_here(self, review: Object) -> Object:
        """The response to a review from an API server of this process, without encoding and decoding."""
        return await self._answer(review, response_of)

    async def _answer(self, body: bytes | Object, form: Callable[[ReviewAnswer], _Form]) -> _Form:
        started = self._of.clock.monotonic()
        with self._of.measures.steps.step("admit"):
            resource, verdict = await self.admit(body)
        with self._of.measures.steps.step("build_response"):
            made = form(verdict)
        self._of.measures.answered(verdict.outcome, resource, self._of.clock.monotonic() - started)
        return made

    async def admit(self, body: bytes | Object) -> tuple[str, ReviewAnswer]:
        """The kind of object in the request, and the verdict on it."""
        review = read(body) if isinstance(body, bytes) else body
        request = _request_of(review)
        resource = (request.get("resource") or {}).get("resource") if isinstance(request.get("resource"), dict) else ""
        kind = {"pods": "Pod", "verticalpodautoscalers": "VPA"}.get(str(resource), "unknown")
        world = self._context()
        pod: Object = {}
        found = NOBODY
        if kind == "Pod" and isinstance(request.get("object"), dict):
            pod = request["object"]
            namespace = str(request.get("namespace") or "")
            if namespace in self._of.index.namespaces:
                try:
                    found = await self._for_pod(pod, namespace, world)
                except Exception:
                    log.exception("looking up a pod's autoscaler")
        if isinstance(body, bytes) and review is None:
            verdict = answer(body, world)
        else:
            verdict = answer_to(review, world, Chosen(found.size.vpa, found.size.boosts, found.size.wanted))
        if kind == "VPA" and not _has_spec(request):
            # A missing spec cannot be defaulted; the API server's own validation reports it.
            verdict = replace(verdict, patch=None)
        if kind == "VPA" and verdict.allowed and _has_spec(request):
            verdict = replace(verdict, warnings=(*verdict.warnings, *await self._unowned(request)))
        if found.size.notes:
            note = annotate(FITTED, "; ".join(found.size.notes))
            verdict = replace(verdict, patch=[*(verdict.patch or _annotatable(pod)), note])
        if kind == "Pod" and must_wait(pod, found.vpa):
            verdict = replace(verdict, patch=[*(verdict.patch or []), *gate_patch(pod)], outcome="applied")
        return kind, verdict

    async def _unowned(self, request: Mapping[str, Any]) -> tuple[str, ...]:
        """A warning for users who apply an autoscaler that selects pods which no controller would recreate."""
        vpa = as_v1(request["object"])
        try:
            if not may_have_unowned(vpa):
                return ()
            selector = str(LabelSelector.from_object(own_selector(vpa)))
            async with asyncio.timeout(LEARNING_S):
                listed = await self._of.client.list(POD, str(request.get("namespace") or ""), labelSelector=selector)
        except (ApiError, Unreachable, TimeoutError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.info("pods of an autoscaler: %s", error)
            return ()
        names = unowned(listed["items"])
        return (warning(names),) if names else ()

    def _context(self) -> ReviewContext:
        """The context of responses; cached until the autoscalers are indexed again."""
        vpas = self._of.index.vpas
        if self._known is None or self._known.vpas is not vpas:
            self._known = ReviewContext(
                vpas,
                self._of.targets.selector_of,
                self._of.targets.topmost_of,
                self._of.limit_ranges,
                self._of.config.feature_gates,
                self._of.config.max_allowed_cpu_boost,
                self._of.config.change_without_recommendation,
                self._of.quotas,
            )
        return self._known

    async def _for_pod(self, pod: Object, namespace: str, world: ReviewContext) -> SizedPod:
        """The pod's autoscaler, with the latest recommendation, reduced to a size that fits."""
        await self._of.owners.learn(pod, namespace)
        placed = {**pod, "metadata": {**(pod.get("metadata") or {}), "namespace": namespace}}
        vpa = controlling_vpa(placed, world.vpas, world.selector_of, world.topmost_of)
        if vpa is None and await self._learned_scales(namespace):
            vpa = controlling_vpa(placed, world.vpas, world.selector_of, world.topmost_of)
        if vpa is None or self._of.stops.frozen(vpa) is not None:
            # While changes are frozen a pod keeps its template's size, and a pod that requires an autoscaler waits.
            return NOBODY
        fresh = await self._of.live.improve(placed, vpa)
        fresh = vpa if fresh is vpa else self._of.index.vertical(fresh)
        if requires(pod) and not recommends_for(fresh, pod):
            fresh = at_own_size(fresh, placed)
        return SizedPod(vpa, self._fit(placed, fresh, world))

    def _fit(self, pod: Object, vpa: Mapping[str, Any], world: ReviewContext) -> Size:
        if self._of.fitting is None:
            return Size(vpa)
        namespace = pod["metadata"]["namespace"]
        ranges = self._of.limit_ranges.by("namespace", namespace)
        anyway = world.change_without_recommendation
        bounds = merged(ranges, namespace, anyway) if ranges or anyway else NO_BOUNDS
        boosting = bool(world.gates.get("CPUStartupBoost")) and has_boost(vpa)
        try:
            return self._of.fitting.size(vpa, pod, bounds, Boosting(world.max_boost) if boosting else None)
        except BoostError:
            # The response to the API server names the autoscaler.
            return Size(vpa)

    async def _learned_scales(self, namespace: str) -> bool:
        """Fetches the scale of owners of custom kinds, if an autoscaler may target one of them. Returns whether it
        did."""
        foreign = any(
            vpa.namespace == namespace and vpa.kind and vpa.kind not in WELL_KNOWN for vpa in self._of.index.vpas
        )
        if not foreign or not self._of.scales.wanted.is_set():
            return False
        try:
            async with asyncio.timeout(LEARNING_S):
                await self._of.scales.refresh()
        except TimeoutError:
            log.info("scales of %s: the API server took too long", namespace)
            return False
        return True


def read(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError):
        return None


def _request_of(review: Any) -> dict[str, Any]:
    request = review.get("request") if isinstance(review, dict) else None
    return request if isinstance(request, dict) else {}


def _annotatable(pod: Object) -> Patch:
    return [] if (pod.get("metadata") or {}).get("annotations") is not None else [add("/metadata/annotations", {})]


def _has_spec(request: Mapping[str, Any]) -> bool:
    given = request.get("object")
    return isinstance(given, dict) and isinstance(given.get("spec"), dict)


def response_of(verdict: ReviewAnswer) -> Object:
    review = verdict.to_response()
    if verdict.patch:
        review["response"]["patch"] = base64.b64encode(msgspec.json.encode(verdict.patch)).decode()
    return review
