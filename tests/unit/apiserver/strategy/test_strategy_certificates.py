"""What each endpoint of a CertificateSigningRequest may change."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import FieldError
from podfit.apiserver.auth.certs.pki import Pki
from podfit.apiserver.strategy import strategy_for
from podfit.apiserver.strategy.kinds.extending.issued import problem_of
from podfit.apiserver.strategy.kinds.extending.signers import signer_name

STRATEGY = strategy_for(kind_named("CertificateSigningRequest"))
SINCE = "2020-01-01T00:00:00Z"
APPROVED = {"type": "Approved", "status": "True", "lastUpdateTime": SINCE, "lastTransitionTime": SINCE}


def request(**status: Any) -> Object:
    meta = {"name": "r", "resourceVersion": "1"}
    return {"metadata": meta, "spec": {"username": "jane", "signerName": "x.io/y"}, "status": status}


def written(new: Object, old: Object, subresource: str = "") -> tuple[Object, list[str]]:
    new = {**new, "metadata": dict(new["metadata"])}
    STRATEGY.prepare_update(new, old, subresource)
    return new, [str(error) for error in STRATEGY.validate_update(new, old, subresource)]


def conditions(*rows: tuple[str, str]) -> list[Object]:
    return [{"type": kind, "status": status} for kind, status in rows]


@pytest.mark.parametrize("subresource", ["", "status", "approval"])
def test_no_endpoint_changes_what_was_requested(subresource: str) -> None:
    new, errors = written({**request(), "spec": {"username": "admin"}}, request(), subresource)
    assert new["spec"] == request()["spec"] and errors == []


def test_the_object_itself_has_no_say_in_the_status() -> None:
    new, errors = written(request(certificate="eA=="), request())
    assert new["status"] == {} and errors == []


def test_a_decision_is_refused_where_only_the_status_is_written() -> None:
    _, errors = written(request(conditions=[APPROVED]), request(), "status")
    assert errors == ['status.conditions: Forbidden: updates may not add a condition of type "Approved"']
    new, errors = written(
        request(conditions=conditions(("Approved", "False"))), request(conditions=[APPROVED]), "status"
    )
    assert new["status"]["conditions"][0]["status"] == "True" and errors == []


def test_an_approval_leaves_the_certificate() -> None:
    sly = request(conditions=conditions(("Approved", "True")), certificate="eA==")
    new, errors = written(sly, request(certificate="eQ=="), "approval")
    assert new["status"]["certificate"] == "eQ==" and errors == []
    [row] = new["status"]["conditions"]
    assert row["lastUpdateTime"] == row["lastTransitionTime"]


def test_decisions_exclude_each_other_stay_and_are_only_true() -> None:
    def errors_of(*rows: tuple[str, str]) -> list[str]:
        return written(request(conditions=conditions(*rows)), request(conditions=[APPROVED]), "approval")[1]

    assert errors_of(("Approved", "True"), ("Denied", "True")) == [
        'status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive'
    ]
    assert errors_of(("Failed", "False")) == [
        'status.conditions[0].status: Unsupported value: "False": supported values: "True"',
        'status.conditions: Forbidden: updates may not remove a condition of type "Approved"',
    ]


def test_only_certificates_are_issued_and_once() -> None:
    def errors_of(issued: bytes, before: str = "") -> list[str]:
        new = request(certificate=base64.b64encode(issued).decode())
        return written(new, request(**({"certificate": before} if before else {})), "status")[1]

    shown = 'status.certificate: Invalid value: "<certificate data>": '
    assert errors_of(b"x") == [f"{shown}must contain at least one CERTIFICATE PEM block"]
    fixed = "status.certificate: Forbidden: updates may not modify existing certificate content"
    assert errors_of(b"x", "eQ==") == [fixed]


def test_blocks_of_certificates_are_read(tmp_path) -> None:  # type: ignore[no-untyped-def]
    pki = Pki(tmp_path, ["127.0.0.1"])
    assert problem_of(pki.ca) == ""
    assert problem_of(pki.admin.key).startswith("only CERTIFICATE PEM blocks are allowed, found")
    assert (
        problem_of(b"-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n") == "x509: malformed certificate"
    )


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("a.io/b", []),
        ("", ["s: Required value"]),
        (
            "a.io",
            [
                's: Invalid value: "a.io": must be a fully qualified domain and path of the form '
                "'example.com/signer-name'"
            ],
        ),
        ("io/b", ['s: Invalid value: "io": should be a domain with at least two segments separated by dots']),
        (
            f"{'a' * 64}.io/b",
            [f's: Invalid value: "{"a" * 64}.io": validating label "{"a" * 64}": must be no more than 63 characters'],
        ),
        (f"{'a.' * 130}io/b", ["s: Too long: may not be more than 253 bytes"]),
        (f"a.io/{'b.' * 300}c", ["s: Too long: may not be more than 571 bytes"]),
    ],
)
def test_a_signer_has_a_domain_and_a_path(name: str, wanted: list[str]) -> None:
    errors: list[FieldError] = []
    signer_name(name, "s", errors)
    assert [str(error) for error in errors] == wanted
