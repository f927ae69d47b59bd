"""The strategy of CertificateSigningRequests: the spec is immutable; approval and status have endpoints of their
own."""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from datetime import UTC, datetime

from podfit.api.objects import Object
from podfit.api.status import duplicate, invalid, not_supported, required
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.apiserver.auth.certs.certificates import EXTENDED_USAGES, USAGES, load_request
from podfit.apiserver.strategy import meta
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import equal
from podfit.apiserver.strategy.kinds.extending.issued import problem_of
from podfit.apiserver.strategy.kinds.extending.signers import signer_name
from podfit.apiserver.strategy.pod.update import difference

_LEGACY = "kubernetes.io/legacy-unknown"
_DECISIONS = ("Approved", "Denied")
_TRUE_ONLY = (*_DECISIONS, "Failed")
"""Conditions without a false status, which are never removed."""
_ANY = ("False", "True", "Unknown")
_EXCLUSIVE = "Approved and Denied conditions are mutually exclusive"


class CertificateSigningRequestStrategy(Strategy):
    update_checks = status_checks = "wc"
    has_generation = False

    def reset_status(self, obj: Object) -> None:
        obj["status"] = {}

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        meta.keep(new, old, "spec")
        if not subresource:
            meta.keep(new, old, "status")
        else:
            status, stored = dict(new.get("status") or {}), old.get("status") or {}
            if subresource == "status":
                _keep_decisions(status, stored)
            else:
                status = dict(stored)
                meta.keep(status, new.get("status") or {}, "conditions")
            _date(status, stored)
            new["status"] = status
        meta.carry_over(new, old)

    def validate_name(self, name: str, prefix: bool = False) -> list[str]:
        return names.path_segment(name, prefix) if len(name) <= 253 else [names.max_length(253)]

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        try:
            load_request(base64.b64decode(spec.get("request") or "", validate=True))
        except ValueError as error:
            errors.append(invalid("spec.request", spec.get("request"), str(error)))
        errors += _usage_errors(spec.get("usages") or [])
        signer = spec.get("signerName", "")
        if signer == _LEGACY:
            detail = "the legacy signerName is not allowed via this API version"
            errors.append(invalid("spec.signerName", signer, detail))
        else:
            signer_name(signer, "spec.signerName", errors)
        lifetime = spec.get("expirationSeconds")
        if lifetime is not None and lifetime < 600:
            detail = "may not specify a duration less than 600 seconds (10 minutes)"
            errors.append(invalid("spec.expirationSeconds", lifetime, detail))
        return errors

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        errors = self.validate_update_meta(new, old, subresource)
        if not subresource:
            return errors
        status, stored = new.get("status") or {}, old.get("status") or {}
        now, was = status.get("conditions") or [], stored.get("conditions") or []
        _conditions(now, was, errors)
        given, known = status.get("certificate"), stored.get("certificate")
        if given != known and (problem := _problem(given)) and not _problem(known):
            errors.append(invalid("status.certificate", "<certificate data>", problem))
        _removals(now, was, errors)
        if subresource == "status":
            _decided(now, was, errors)
        if known and known != given:
            errors.append(forbidden("status.certificate", "updates may not modify existing certificate content"))
        return errors


def _of(kind: str, rows: list[Object]) -> list[Object]:
    return [row for row in rows if (row.get("type") or "") == kind]


def _keep_decisions(status: Object, stored: Object) -> None:
    """Keeps the stored decision in a write of the status. An added or removed decision is kept too, for validation to
    reject it."""
    rows = list(status.get("conditions") or ())
    for kind in _DECISIONS:
        before = _of(kind, stored.get("conditions") or [])
        if len(before) == len(_of(kind, rows)):
            found = iter(before)
            rows = [next(found) if row.get("type") == kind else row for row in rows]
    if rows:
        status["conditions"] = rows


def _date(status: Object, stored: Object) -> None:
    """Sets the times of conditions that the client omitted."""
    if not status.get("conditions"):
        return
    now, before = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), stored.get("conditions") or ()
    rows = []
    for row in status["conditions"]:
        same = (
            condition for condition in before if all(condition.get(key) == row.get(key) for key in ("type", "status"))
        )
        since = next(
            (condition["lastTransitionTime"] for condition in same if condition.get("lastTransitionTime")), now
        )
        rows.append(
            {
                **row,
                "lastUpdateTime": row.get("lastUpdateTime") or now,
                "lastTransitionTime": row.get("lastTransitionTime") or since,
            }
        )
    status["conditions"] = rows


def _conditions(rows: list[Object], before: list[Object], errors: Errors) -> None:
    """Validates the conditions. Values that were stored before they were forbidden remain valid."""
    path, known = "status.conditions", Counter(row.get("type") or "" for row in before)
    seen: set[str] = set()
    for at, row in enumerate(rows):
        kind, state = row.get("type") or "", row.get("status") or ""
        if not kind and "" not in known:
            errors.append(required(f"{path}[{at}].type"))
        allowed = ("True",) if kind in _TRUE_ONLY else _ANY
        if not state:
            errors.append(required(f"{path}[{at}].status"))
        elif state not in allowed:
            errors.append(not_supported(f"{path}[{at}].status", state, allowed))
        other = {"Approved": "Denied", "Denied": "Approved"}.get(kind)
        if other in seen and not all(decision in known for decision in _DECISIONS):
            errors.append(invalid(path, kind, _EXCLUSIVE))
        if kind in seen and max(known.values(), default=0) < 2:
            errors.append(duplicate(f"{path}[{at}].type", kind))
        seen.add(kind)


def _removals(now: list[Object], was: list[Object], errors: Errors) -> None:
    for kind in _TRUE_ONLY:
        if len(_of(kind, now)) < len(_of(kind, was)):
            errors.append(forbidden("status.conditions", f'updates may not remove a condition of type "{kind}"'))


def _decided(now: list[Object], was: list[Object], errors: Errors) -> None:
    """Errors about a decision that is written through the wrong endpoint."""
    for kind in _DECISIONS:
        mine, before = _of(kind, now), _of(kind, was)
        if len(mine) > len(before):
            errors.append(forbidden("status.conditions", f'updates may not add a condition of type "{kind}"'))
        elif len(mine) == len(before) and not equal(mine, before):
            shown = difference({"conditions": before}, {"conditions": mine})
            detail = f'updates may not modify a condition of type "{kind}"\n{shown}'
            errors.append(forbidden("status.conditions", detail))


def _problem(certificate: str | None) -> str:
    try:
        return problem_of(base64.b64decode(certificate)) if certificate else ""
    except binascii.Error:
        return ""


def _usage_errors(usages: list[str]) -> Errors:
    if not usages:
        return [required("spec.usages")]
    known = sorted({**USAGES, **EXTENDED_USAGES})
    errors: Errors = [
        not_supported(f"spec.usages[{at}]", usage, known) for at, usage in enumerate(usages) if usage not in known
    ]
    repeated = [at for at, usage in enumerate(usages) if usage in usages[:at]]
    return errors + [duplicate(f"spec.usages[{at}]", usages[at]) for at in repeated]
