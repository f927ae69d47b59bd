"""Handles serviceaccounts/token and token reviews."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.status import ApiError, bad_request
from podfit.apiserver.admission.base import CREATE, Attributes
from podfit.apiserver.auth.authenticate import Authenticator
from podfit.apiserver.auth.reviews import user_info
from podfit.apiserver.auth.tokens import ServiceAccountTokens
from podfit.apiserver.calls import Call
from podfit.apiserver.request import Response
from podfit.apiserver.writing.bodies import received
from podfit.apiserver.writing.options import write_options
from podfit.apiserver.writing.writes import match_namespace

TOKEN_REQUEST = Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests", True)


_INVALID = "invalid bearer token"


class TokenHandlers:
    def __init__(self, tokens: ServiceAccountTokens, authenticator: Authenticator) -> None:
        self._tokens, self._authenticator = tokens, authenticator

    async def request(self, call: Call) -> Response:
        options = write_options(call.request.query, "CreateOptions")
        requested = await received(call, TOKEN_REQUEST, options.validation)
        match_namespace(requested.setdefault("metadata", {}), call.namespace)
        name = call.route.name
        attrs = Attributes(CREATE, call.kind, "token", call.namespace, name, requested, None, call.request.user)
        await call.parts.writer.chain.admit(attrs)
        self._tokens.check_request(call.namespace, name, requested)
        await call.parts.writer.chain.validate(attrs)
        return call.answer_value(self._tokens.token_request(call.namespace, name, requested), 201)

    async def review(self, call: Call) -> Response:
        options = write_options(call.request.query, "CreateOptions")
        review = await received(call, call.kind, options.validation)
        review.setdefault("metadata", {})
        spec = review.get("spec") or {}
        if not spec.get("token"):
            raise bad_request("token is required for TokenReview in authentication")
        review["status"] = self._status(spec["token"], spec.get("audiences") or list(self._tokens.audiences))
        return call.answer_value(review, 201)

    def _status(self, token: str, audiences: list[str]) -> Object:
        """The status of a review: the user of the token, if it is valid for one of the audiences."""
        meant = self._tokens.audiences_of(token)
        try:
            if meant is not None:
                user = self._tokens.authenticate_for(token, audiences)
            else:
                # Tokens of other kinds are valid for this server under any audience.
                meant = list(self._tokens.audiences)
                user = self._authenticator.authenticate({"authorization": f"Bearer {token}"})
        except ApiError as error:
            notes = getattr(error, "__notes__", [])
            return {"user": {}, "error": f"[{_INVALID}, {notes[0]}]" if notes else _INVALID}
        shared = [name for name in audiences if name in meant]
        if user is None or not shared:
            return {"user": {}, "error": _INVALID}
        return {"authenticated": True, "user": user_info(user), "audiences": shared}
