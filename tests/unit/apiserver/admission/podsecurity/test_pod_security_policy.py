"""The policy that the labels of a namespace state."""

from __future__ import annotations

import pytest

from podfit.apiserver.admission.podsecurity.policy import (
    BASELINE,
    PREFIX,
    PRIVILEGED,
    RESTRICTED,
    UNRESTRICTED,
    Standard,
    policy_of,
)


def labels(**values: str) -> dict[str, str]:
    return {PREFIX + name.replace("_", "-"): value for name, value in values.items()}


@pytest.mark.parametrize("given", [None, {}, {"kubernetes.io/metadata.name": "x"}])
def test_without_labels_nothing_is_restricted(given: dict[str, str] | None) -> None:
    assert policy_of(given) is UNRESTRICTED


def test_each_mode_has_its_level_and_version() -> None:
    policy = policy_of(
        labels(
            enforce="baseline",
            enforce_version="v1.24",
            audit="restricted",
            audit_version="v1.0",
            warn="restricted",
            warn_version="latest",
        )
    )
    assert policy.enforce == Standard(BASELINE, 24)
    assert policy.audit == Standard(RESTRICTED, 0)
    assert policy.warn == Standard(RESTRICTED)
    assert [str(standard) for standard in policy[:3]] == ["baseline:v1.24", "restricted:v1.0", "restricted:latest"]


def test_what_is_enforced_is_warned_about() -> None:
    policy = policy_of(labels(enforce="restricted", enforce_version="v1.30"))
    assert policy.warn == Standard(RESTRICTED, 30)
    assert policy.audit == Standard(PRIVILEGED)


def test_the_version_of_warnings_stays_as_stated() -> None:
    policy = policy_of(labels(enforce="restricted", enforce_version="v1.30", warn_version="v1.31"))
    assert policy.warn == Standard(RESTRICTED, 31)


def test_a_level_of_warnings_of_its_own_is_kept() -> None:
    assert policy_of(labels(enforce="restricted", warn="privileged")).warn == Standard(PRIVILEGED)


def test_unreadable_levels_enforce_the_strictest_standard_and_warn_about_nothing() -> None:
    policy = policy_of(labels(enforce="Baseline", audit="x", warn=""))
    assert policy[:3] == (Standard(RESTRICTED), Standard(PRIVILEGED), Standard(PRIVILEGED))
    assert [str(error) for error in policy.errors] == [
        f'metadata.labels[{PREFIX}{mode}]: Invalid value: "{value}": must be one of privileged, baseline, restricted'
        for mode, value in (("enforce", "Baseline"), ("audit", "x"), ("warn", ""))
    ]


def test_an_unreadable_level_to_enforce_is_not_warned_about() -> None:
    assert policy_of(labels(enforce="x")).warn == Standard(PRIVILEGED)


@pytest.mark.parametrize("version", ["v1.01", "v2.0", "1.30", "v1.", "v1.9999999999999999999", "v1.1\n", ""])
def test_unreadable_versions_are_the_latest(version: str) -> None:
    policy = policy_of(labels(enforce="baseline", enforce_version=version))
    assert policy.enforce == Standard(BASELINE)
    assert [error.detail for error in policy.errors] == ['must be "latest" or "v1.x"']
