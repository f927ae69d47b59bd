"""Annotations for policies that are rolled out pod by pod.

An autoscaler's annotation gives the number of pods that get a changed policy at a time. Each pod sized since then is
annotated with the digest of that policy, so the progress of a rollout is not stored anywhere else.
"""

from __future__ import annotations

import json
import math
from hashlib import blake2b

from podfit.api.objects import ObjectView
from podfit.vpa.model.changing.jsonpatch import Patch, annotate
from podfit.vpa.model.objects.pods import annotations_of
from podfit.vpa.model.objects.policy import update_mode
from podfit.vpa.model.times import NEVER, Seconds, from_rfc3339, to_rfc3339

ROLLING = "podfit.dev/rolling"
"""On an autoscaler: how many of its pods at a time get a changed policy or mode, as `1` or `25%`."""
SIZED_UNDER = "podfit.dev/vpa-policy"
"""On a pod: the digest of the policy that it was sized under, and since when if it was resized in place."""


def at_once(vpa: ObjectView, pods: int) -> int:
    """The number of pods that may be changed at a time; 0 without the annotation. An invalid value counts as one."""
    text = annotations_of(vpa).get(ROLLING)
    if text is None:
        return 0
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    if not number.isascii() or not number.isdigit():
        return 1
    return max(1, math.ceil(pods * min(int(number), 100) / 100) if percent else int(number))


def policy_digest(vpa: ObjectView) -> str:
    """A digest of the containers' policy and the update mode."""
    said = [(vpa.get("spec") or {}).get("resourcePolicy") or {}, update_mode(vpa)]
    return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=8).hexdigest()


def sized_under(pod: ObjectView) -> tuple[str, Seconds]:
    """The digest of the policy that a pod was sized under, and since when. They are empty and NEVER if they were not
    recorded."""
    digest, _, since = annotations_of(pod).get(SIZED_UNDER, "").partition(" ")
    try:
        return digest, from_rfc3339(since) if since else NEVER
    except ValueError:
        return digest, NEVER


def note_policy(vpa: ObjectView, now: Seconds | None = None) -> Patch:
    """The patch that records on a pod the policy it is sized under, if the autoscaler rolls out changes. `now` is given
    for a running pod."""
    if ROLLING not in annotations_of(vpa):
        return []
    since = f" {to_rfc3339(now)}" if now is not None else ""
    return [annotate(SIZED_UNDER, f"{policy_digest(vpa)}{since}")]
