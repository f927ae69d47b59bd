"""Detects a server's dialect of in-place resize, and adapts our components to older ones.

Kubernetes 1.27 to 1.31 resize by updating the pod itself, 1.32 through `/resize`; all of them report the state of a
resize as one word, `status.resize`. Since 1.33 there are `/resize` and two conditions, which is the form that all
components of podfit use: pods of older servers are converted to it here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.api.resize.conditions import IN_PROGRESS, IN_PROGRESS_WORD, PENDING, PROPOSED
from podfit.api.resize.dialects import DIALECTS, NATIVE, VERSION_FIELD
from podfit.api.status import ApiError
from podfit.client.transport import Unreachable
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock

if TYPE_CHECKING:
    from podfit.client.rest import Client

_WORDS_UNTIL = (1, 33)
"""From this version on, conditions report the state of a resize."""
_REFUSED = "pod updates may not change fields other than"
_RESIZABLE = "`spec.containers[*].resources`"


class ServerForm(msgspec.Struct, frozen=True):
    version: str = ""
    on_pod: bool = False
    """There is no `/resize` subresource: resources are changed on the pod itself, if at all."""
    in_words: bool = False
    """`status.resize` reports the state of a resize."""


NATIVE_FORM = ServerForm()


async def detect_form(client: Client) -> ServerForm:
    """Detects a server's form from discovery and version. A server that reports neither is assumed to use the
    newest."""
    try:
        listed = await client.raw("GET", "/api/v1")
        version = await client.raw("GET", "/version")
    except ApiError:
        return NATIVE_FORM
    names = {row.get("name") for row in _rows(listed)}
    if "pods" not in names or not isinstance(version, dict):
        return NATIVE_FORM
    numbers = tuple(int(found[0]) if (found := re.match(r"\d+", str(version.get(key)))) else 0 for key in _KEYS)
    on_pod = f"{POD.plural}/resize" not in names
    return ServerForm(str(version.get("gitVersion") or ""), on_pod, numbers < _WORDS_UNTIL)


_KEYS = ("major", "minor")


async def default_dialect(client: Client, clock: Clock) -> str:
    """The dialect of namespaces without a label. Waits for a server that does not respond; one that rejects the
    request, or does not support dialects, uses the native form."""
    pause = Backoff(0.05, 5.0, jitter=0.2)
    while True:
        try:
            version = await client.raw("GET", "/version")
        except Unreachable:
            await clock.sleep(pause.next())
        except ApiError as error:
            if error.code < 500 and error.code != 429:
                return NATIVE
            await clock.sleep(pause.next())
        else:
            named = version.get(VERSION_FIELD) if isinstance(version, dict) else None
            return named if named in DIALECTS else NATIVE


def _rows(listed: Any) -> list[Object]:
    return list(listed.get("resources") or ()) if isinstance(listed, dict) else []


def refusal(form: ServerForm, error: ApiError) -> ApiError:
    """The error for a resize, with a plain sentence if the server does not support resizing."""
    if error.code != 422 or _REFUSED not in error.message or _RESIZABLE in error.message:
        return error
    why = f"the API server ({form.version}) does not resize pods in place: InPlacePodVerticalScaling is off"
    return ApiError(error.code, error.reason, why)


def modern(pod: Object) -> Object:
    """The pod with the conditions that correspond to `status.resize`, which stays in place. Does not modify the
    argument.
    """
    status = pod.get("status") or {}
    word = status.get("resize")
    if not word or not isinstance(word, str) or word == PROPOSED:
        return pod
    kind = IN_PROGRESS if word == IN_PROGRESS_WORD else PENDING
    if any(condition.get("type") == kind for condition in status.get("conditions") or ()):
        return pod
    made = {"type": kind, "status": "True", **({"reason": word} if kind == PENDING else {})}
    return {**pod, "status": {**status, "conditions": [made, *(status.get("conditions") or ())]}}


def modern_answer(answer: Any) -> Any:
    """The same for any response about pods: a single pod or a list."""
    if not isinstance(answer, dict):
        return answer
    items = answer.get("items")
    if items is None:
        return modern(answer) if answer.get("status") else answer
    made = [modern(item) for item in items]
    return answer if all(one is other for one, other in zip(made, items, strict=True)) else {**answer, "items": made}
