"""Service-account tokens: signed (ES256), bound to an account and usually to a pod, and invalid once either is deleted.

`ServiceAccountTokens` issues them (the `token` subresource of accounts), authenticates their bearers and answers
TokenReviews. Verified signatures are cached; whether account and pod still exist is checked every time.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from podfit.api.objects import Object
from podfit.api.registry.kinds import NODE, POD, kind_named
from podfit.api.status import ApiError, bad_request, conflict, go_quote, invalid, not_found, unprocessable
from podfit.apiserver.admission.base import Cluster, meta_of, spec_of
from podfit.apiserver.auth.authenticate import unauthorized
from podfit.apiserver.request import User
from podfit.kit.clock import Clock, RealClock, parse_rfc3339, rfc3339
from podfit.kit.uids import new_uid

SERVICE_ACCOUNT = kind_named("ServiceAccount")
SECRET = kind_named("Secret")
DEFAULT_ISSUER = "https://kubernetes.default.svc.cluster.local"
KEY_ID = "podfit"
_PRIVATE = "kubernetes.io"
_EXTENDED_S = 365 * 24 * 3600
_MARKED_S = 3607
"""The lifetime that mounted tokens request. They get a year, and a claim with the time by which to renew them."""
_REMEMBERED = 4096
_BINDABLE = {"Pod": POD, "Secret": SECRET, "Node": NODE}
_GROUP = "authentication.k8s.io"
_ID = "authentication.kubernetes.io/"


class ServiceAccountTokens:
    def __init__(
        self,
        key: ec.EllipticCurvePrivateKey,
        cluster: Cluster,
        *,
        issuer: str = DEFAULT_ISSUER,
        audiences: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        self._key = key
        self._public = key.public_key()
        self._cluster = cluster
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        self._clock = clock or RealClock()
        self._verified: dict[str, dict[str, Any]] = {}

    # --- issuing ------------------------------------------------------------------------------------------------

    def check_request(self, namespace: str, name: str, request: Object) -> Object:
        """The account that a token is requested for, if the request is valid."""
        given = meta_of(request).get("name")
        if given and given != name:
            refusal = invalid("metadata.name", given, "must match the service account name if specified")
            raise unprocessable("TokenRequest", name, [refusal], _GROUP)
        account = self._cluster.get(SERVICE_ACCOUNT, namespace, name)
        if account is None:
            raise not_found("serviceaccounts", name)
        uid, wanted = meta_of(account).get("uid"), meta_of(request).get("uid")
        if wanted and wanted != uid:
            detail = f"the UID in the token request ({wanted}) does not match the UID of the service account ({uid})"
            raise conflict("TokenRequest", name, detail, _GROUP)
        _check_duration(_duration(request))
        return account

    def token_request(self, namespace: str, name: str, request: Object) -> Object:
        """Handles POST serviceaccounts/NAME/token: returns the request with its defaults and the token in its
        status.
        """
        account = self.check_request(namespace, name, request)
        requested, seconds = spec_of(request), _duration(request)
        ref = requested.get("boundObjectRef")
        audiences = requested.get("audiences") or list(self.audiences)
        now = int(self._clock.now())
        claims = self._claims(namespace, account, audiences, now, seconds)
        if ref is not None:
            self._bind(claims, namespace, name, ref)
            if seconds == _MARKED_S and ref.get("kind") == "Pod":
                claims[_PRIVATE]["warnafter"] = now + seconds
                claims["exp"] = now + _EXTENDED_S
        spec: Object = {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": ref}
        made = {"uid": new_uid(), "creationTimestamp": rfc3339(now)}
        meta = {**meta_of(request), "name": name, "namespace": namespace, **made}
        status = {"token": self._sign(claims), "expirationTimestamp": rfc3339(now + seconds)}
        head = {"kind": "TokenRequest", "apiVersion": f"{_GROUP}/v1"}
        return {**head, "metadata": meta, "spec": spec, "status": status}

    def _claims(
        self, namespace: str, account: Object, audiences: Sequence[str], now: int, seconds: int
    ) -> dict[str, Any]:
        meta = meta_of(account)
        return {
            "aud": list(audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            _PRIVATE: {
                "namespace": namespace,
                "serviceaccount": {"name": meta.get("name"), "uid": meta.get("uid")},
            },
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{meta.get('name')}",
        }

    def _bind(self, claims: dict[str, Any], namespace: str, account: str, ref: Object) -> None:
        group, version = _group_version(ref.get("apiVersion", ""))
        called = ref.get("kind", "")
        kind = None if group else _BINDABLE.get(called)
        if kind is None:
            raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={called}")
        name = str(ref.get("name", ""))
        bound = self._cluster.get(kind, namespace if kind.namespaced else "", name)
        if bound is None:
            raise not_found(kind.plural, name)
        if kind is POD and spec_of(bound).get("serviceAccountName") != account:
            raise bad_request(
                f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
            )
        uid = meta_of(bound).get("uid")
        if ref.get("uid") and ref["uid"] != uid:
            raise conflict(
                called,
                name,
                f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        claims[_PRIVATE][called.lower()] = {"name": name, "uid": uid}
        if kind is POD:
            self._note_node(claims, str(spec_of(bound).get("nodeName") or ""))

    def _note_node(self, claims: dict[str, Any], node_name: str) -> None:
        if not node_name:
            return
        node = self._cluster.get(NODE, "", node_name)
        claims[_PRIVATE]["node"] = {"name": node_name, **({"uid": meta_of(node).get("uid")} if node else {})}

    def _sign(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": KEY_ID})

    # --- checking -----------------------------------------------------------------------------------------------

    def authenticate_token(self, token: str) -> User | None:
        """Returns None for tokens of another kind or issuer; raises 401 for invalid tokens of this issuer."""
        return self.authenticate_for(token, self.audiences)

    def authenticate_for(self, token: str, audiences: Sequence[str]) -> User | None:
        claims = self._claims_of(token)
        if claims is None:
            return None
        now = self._clock.now()
        if claims["exp"] <= now:
            raise _refused("service account token has expired")
        if not claims["nbf"] <= now + 60:
            raise _refused("service account token is not valid yet")
        if not set(claims["aud"]) & set(audiences):
            given, wanted = (" ".join(map(go_quote, names)) for names in (claims["aud"], audiences))
            raise _refused(f"token audiences [{given}] is invalid for the target audiences [{wanted}]")
        return self._bearer(claims, now)

    def audiences_of(self, token: str) -> list[str] | None:
        """The audiences of a token of this issuer; None for any other token."""
        claims = self._claims_of(token)
        return None if claims is None else list(claims["aud"])

    def _claims_of(self, token: str) -> dict[str, Any] | None:
        claims = self._verified.get(token)
        if claims is not None:
            return claims
        if token.count(".") != 2:
            return None
        try:
            claims = jwt.decode(
                token,
                self._public,
                algorithms=["ES256"],
                options={"verify_exp": False, "verify_aud": False, "verify_nbf": False, "verify_iat": False},
            )
        except jwt.PyJWTError:
            return None
        audience = claims.get("aud")
        claims["aud"] = [audience] if isinstance(audience, str) else audience or []
        if claims.get("iss") != self.issuer or not all(isinstance(claims.get(k), int) for k in ("exp", "nbf")):
            return None
        if len(self._verified) >= _REMEMBERED:
            self._verified.clear()
        self._verified[token] = claims
        return claims

    def _bearer(self, claims: dict[str, Any], now: float) -> User:
        private = claims.get(_PRIVATE) or {}
        namespace = private.get("namespace", "")
        account = private.get("serviceaccount") or {}
        self._require_current(SERVICE_ACCOUNT, namespace, account, now)
        extra = {_ID + "credential-id": (f"JTI={claims.get('jti')}",)}
        for field, kind in (("pod", POD), ("secret", SECRET)):
            if field in private:
                self._require_current(kind, namespace, private[field], now)
        # A token bound only to a node is valid while that node exists; in a pod's token the node is informational.
        if "node" in private and "pod" not in private:
            self._require_current(NODE, "", private["node"], now)
        for field in ("pod", "node"):
            if field in private:
                extra[f"{_ID}{field}-name"] = (private[field]["name"],)
                if private[field].get("uid"):
                    extra[f"{_ID}{field}-uid"] = (private[field]["uid"],)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return User(str(claims.get("sub")), groups, str(account.get("uid") or ""), extra)

    def _require_current(self, kind: Any, namespace: str, ref: Object, now: float) -> None:
        meta = meta_of(self._cluster.get(kind, namespace, str(ref.get("name"))))
        if not meta or meta.get("uid") != ref.get("uid"):
            raise _refused("service account token has been invalidated")
        deleted = meta.get("deletionTimestamp")
        # For a minute after its deletion a terminating pod can still use its token.
        if deleted and parse_rfc3339(deleted) + 60 < now:
            raise _refused("service account token has been invalidated")

    # --- discovery ----------------------------------------------------------------------------------------------

    def openid_configuration(self, base_url: str) -> Object:
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{base_url}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def jwks(self) -> Object:
        key = jwt.algorithms.ECAlgorithm.to_jwk(self._public, as_dict=True)
        return {"keys": [{**key, "use": "sig", "kid": KEY_ID, "alg": "ES256"}]}


def _refused(why: str) -> ApiError:
    """The error for an invalid token. The bearer gets no reason; a TokenReview shows it in its status."""
    error = unauthorized()
    error.add_note(why)
    return error


def _group_version(text: str) -> tuple[str, str]:
    """Parses an apiVersion like Kubernetes, which treats one with several slashes as empty."""
    if text.count("/") > 1:
        return "", ""
    group, _, version = text.rpartition("/")
    return group, version


def _duration(request: Object) -> int:
    seconds: int | None = spec_of(request).get("expirationSeconds")
    return 3600 if seconds is None else seconds


def _check_duration(seconds: int) -> None:
    path = "spec.expirationSeconds"
    problem = None
    if seconds < 600:
        problem = invalid(path, seconds, "may not specify a duration less than 10 minutes")
    elif seconds > 1 << 32:
        problem = invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")
    if problem is not None:
        raise unprocessable("TokenRequest", "", [problem], _GROUP)
