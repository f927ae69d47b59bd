"""The policies by name."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.vpa.policies.auto import AUTO
from podfit.vpa.policies.base import Policy
from podfit.vpa.policies.default import DEFAULT
from podfit.vpa.policies.krr import KRR
from podfit.vpa.policies.rhythm import RHYTHM
from podfit.vpa.policies.window import WINDOW

POLICIES: Mapping[str, Policy] = {policy.name: policy for policy in (DEFAULT, KRR, WINDOW, RHYTHM, AUTO)}
