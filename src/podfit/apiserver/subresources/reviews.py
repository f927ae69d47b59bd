"""Handles access reviews, which are answered and never stored."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.apiserver.auth.reviews import Reviews
from podfit.apiserver.calls import Call
from podfit.apiserver.request import Response
from podfit.apiserver.subresources.table import Handlers
from podfit.apiserver.writing.bodies import received
from podfit.apiserver.writing.options import write_options
from podfit.kit.clock import rfc3339

AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"


class ReviewHandlers:
    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews

    def add_to(self, handlers: Handlers) -> None:
        kinds = handlers.kinds
        kinds[AUTHORIZATION, "subjectaccessreviews"] = self.subject_access
        kinds[AUTHORIZATION, "localsubjectaccessreviews"] = self.local_subject_access
        kinds[AUTHORIZATION, "selfsubjectaccessreviews"] = self.self_subject_access
        kinds[AUTHORIZATION, "selfsubjectrulesreviews"] = self.self_subject_rules
        kinds[AUTHENTICATION, "selfsubjectreviews"] = self.self_subject

    async def subject_access(self, call: Call) -> Response:
        return _answer(call, self._reviews.subject_access(await _read(call)))

    async def local_subject_access(self, call: Call) -> Response:
        return _answer(call, self._reviews.local_subject_access(await _read(call), call.namespace))

    async def self_subject_access(self, call: Call) -> Response:
        return _answer(call, self._reviews.self_subject_access(await _read(call), call.request.user))

    async def self_subject_rules(self, call: Call) -> Response:
        return _answer(call, self._reviews.self_subject_rules(await _read(call), call.request.user))

    async def self_subject(self, call: Call) -> Response:
        made = self._reviews.self_subject(await _read(call), call.request.user)
        made.setdefault("metadata", {}).setdefault("creationTimestamp", rfc3339(call.objects.clock.now()))
        return _answer(call, made)


async def _read(call: Call) -> Object:
    options = write_options(call.request.query, "CreateOptions")
    obj = await received(call, call.kind, options.validation)
    obj.setdefault("metadata", {})
    return obj


def _answer(call: Call, review: Object) -> Response:
    return call.answer_value(review, 201)
