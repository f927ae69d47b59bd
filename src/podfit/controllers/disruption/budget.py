"""Computes how many disruptions a budget currently allows. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from podfit.api.objects import Object


@dataclass(frozen=True, slots=True)
class Count:
    expected: int
    healthy: int
    desired: int

    @property
    def allowed(self) -> int:
        return max(0, self.healthy - self.desired) if self.expected > 0 else 0


def scaled(value: int | str, total: int, *, round_up: bool = True) -> int:
    """An int-or-percent of `total`; percentages are rounded up, as for budgets."""
    if isinstance(value, str) and value.endswith("%"):
        share = int(value[:-1]) * total / 100
        return math.ceil(share) if round_up else math.floor(share)
    return int(value)


def is_healthy(pod: Object) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def counts(spec: Object, expected: int, healthy: int) -> Count:
    """`expected` is the desired number from the pods' controllers (or the number of pods, for an absolute
    minAvailable)."""
    if spec.get("maxUnavailable") is not None:
        desired = max(0, expected - scaled(spec["maxUnavailable"], expected))
    elif spec.get("minAvailable") is not None:
        desired = scaled(spec["minAvailable"], expected)
    else:
        desired = 1
    return Count(expected, healthy, desired)


def needs_scale(spec: Object) -> bool:
    """Whether `expected` must come from the controllers' scale rather than from counting pods."""
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def selector_text(selector: Object | None) -> str:
    """A label selector as Go prints one."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    rules = "".join(
        f"LabelSelectorRequirement{{Key:{rule['key']},Operator:{rule['operator']},"
        f"Values:[{' '.join(rule.get('values') or [])}],}},"
        for rule in selector.get("matchExpressions") or []
    )
    matched = f"MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{rules}}},"
    return f"&LabelSelector{{{matched}}}"
