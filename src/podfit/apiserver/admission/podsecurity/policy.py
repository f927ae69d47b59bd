"""The Pod Security policy of a namespace, parsed from its labels: the standards to enforce, audit and warn about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from podfit.api.status import FieldError, invalid

PRIVILEGED, BASELINE, RESTRICTED = LEVELS = ("privileged", "baseline", "restricted")
"""The levels, from the least strict to the strictest."""
PREFIX = "pod-security.kubernetes.io/"
_LABELS = frozenset(f"{PREFIX}{mode}{part}" for mode in ("enforce", "audit", "warn") for part in ("", "-version"))
_VERSION = re.compile(r"v1\.([0-9]|[1-9][0-9]*)")
_LARGEST = 2**63 - 1


class Standard(NamedTuple):
    """A level as of a minor version of Kubernetes 1; None: as of the latest."""

    level: str = PRIVILEGED
    minor: int | None = None

    def __str__(self) -> str:
        return f"{self.level}:latest" if self.minor is None else f"{self.level}:v1.{self.minor}"

    def stricter_than(self, other: Standard) -> bool:
        """Compares levels only, not versions."""
        return LEVELS.index(self.level) > LEVELS.index(other.level)


class Policy(NamedTuple):
    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()
    errors: tuple[FieldError, ...] = ()
    """Of labels that cannot be read; the policy then has a replacement for each of them."""

    @property
    def restricts_pods(self) -> bool:
        return bool(self.errors) or self.enforce.level != PRIVILEGED or self.restricts_templates

    @property
    def restricts_templates(self) -> bool:
        """Whether templates of workloads are checked: for warnings and audit only, never for enforcement."""
        return bool(self.errors) or self.audit.level != PRIVILEGED or self.warn.level != PRIVILEGED


UNRESTRICTED = Policy()


def policy_of(labels: Mapping[str, str] | None) -> Policy:
    if not labels or _LABELS.isdisjoint(labels):
        return UNRESTRICTED
    errors: list[FieldError] = []
    # An invalid level to enforce counts as the strictest; an invalid level to audit or warn about restricts nothing.
    enforce = _standard(labels, "enforce", RESTRICTED, errors)
    audit = _standard(labels, "audit", PRIVILEGED, errors)
    warn = _standard(labels, "warn", PRIVILEGED, errors)
    if (
        PREFIX + "warn" not in labels
        and labels.get(PREFIX + "enforce") == enforce.level
        and enforce.stricter_than(warn)
    ):
        # Without a label for warnings, the enforced level applies to them.
        warn = Standard(enforce.level, warn.minor if PREFIX + "warn-version" in labels else enforce.minor)
    return Policy(enforce, audit, warn, tuple(errors))


def _standard(labels: Mapping[str, str], mode: str, fallback: str, errors: list[FieldError]) -> Standard:
    level = labels.get(PREFIX + mode, PRIVILEGED)
    if level not in LEVELS:
        errors.append(invalid(_path(mode), level, f"must be one of {', '.join(LEVELS)}"))
        level = fallback
    version = labels.get(f"{PREFIX}{mode}-version", "latest")
    if version == "latest":
        return Standard(level)
    found = _VERSION.fullmatch(version)
    if found is None or int(found[1]) > _LARGEST:
        errors.append(invalid(_path(f"{mode}-version"), version, 'must be "latest" or "v1.x"'))
        return Standard(level)
    return Standard(level, int(found[1]))


def _path(label: str) -> str:
    return f"metadata.labels[{PREFIX}{label}]"
