"""Handles pods/resize: a resize request, from its body to the response.

A client requests a new size for a running pod. The API server decides only whether the request is valid; the node's
agent, which watches the stored pod, decides whether the node can grant it. The steps are those of every update
(`writing/attempt`), spelled out here because this is podfit's central verb:

1. parse: the patch is merged into the stored pod (`api/patches`)
2. mutating admission: webhooks and plugins may change the request
3. restriction: changes of anything but resources and resize policies are reverted (`strategy/pod/resize`)
4. validation: the QoS class is unchanged, nothing is removed, the amounts are valid
5. validating admission: limit ranges, quotas, policies and webhooks may reject the request
6. store: one durable write, which is sent to all watchers; if nothing changed, nothing is written

A PUT, a server-side apply and a request in an older dialect contain a whole pod, or another form of one. They are
handled by their verbs, with the same rules through `PodStrategy`.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.patches import APPLY
from podfit.api.registry.kinds import POD
from podfit.api.schema import type_of
from podfit.apiserver.calls import Call
from podfit.apiserver.request import Response
from podfit.apiserver.strategy.meta import copied
from podfit.apiserver.strategy.pod.pods import PodStrategy
from podfit.apiserver.strategy.pod.sizes_only import differs_in_sizes_only, has_its_defaults
from podfit.apiserver.verbs.get import get
from podfit.apiserver.verbs.patch import patch, patch_type, patched
from podfit.apiserver.verbs.update import update
from podfit.apiserver.writing import managed
from podfit.apiserver.writing.attempt import Attempt
from podfit.apiserver.writing.options import WriteOptions, write_options
from podfit.apiserver.writing.write import Written

RESIZE = "resize"
_STRATEGY = PodStrategy(POD)


async def resize(call: Call) -> Response:
    verb = call.route.verb
    if verb == "get":
        return await get(call)
    if verb == "update":
        return await update(call)
    media = patch_type(call)
    if media == APPLY or call.dialect is not None:
        return await patch(call)
    accepted = call.accepted()
    form = call.form(accepted)
    options = write_options(call.request.query, "PatchOptions", media)
    request = ResizeRequest(call, media, options)
    written = await call.parts.writer.attempts(call.write(options, RESIZE), request.attempt)
    return call.written(accepted, form, written)


class ResizeRequest:
    """A PATCH of pods/resize."""

    def __init__(self, call: Call, media: str, options: WriteOptions) -> None:
        self._call, self._media, self._options = call, media, options
        self._manager = managed.field_manager(call, options)

    async def attempt(self, attempt: Attempt) -> Written:
        """Runs the steps in order, and starts over if another client has written the pod meanwhile."""
        stored = attempt.old
        requested, sizes_only = await attempt.run(lambda: self._parse(stored))
        spec = requested.get("spec")
        new = await attempt.admit(requested)
        known = sizes_only if new.get("spec") is spec else None
        resized = await attempt.run(lambda: self._prepare(new, stored, known))
        attempt.check(new, await attempt.run(lambda: _STRATEGY.validate_resize(new, stored, resized)))
        await attempt.approve(new)
        return await attempt.store(new)

    def _parse(self, stored: Object) -> tuple[Object, bool | None]:
        """The requested pod, and whether it differs from the stored one in sizes only, if known."""
        struct = type_of(POD)
        assert struct is not None
        pod = patched(self._call, stored, self._media, struct, self._options)
        return pod, fill_in(pod, stored)

    def _prepare(self, new: Object, stored: Object, sizes_only: bool | None) -> bool:
        """Reverts changes that a resize may not make, and records the field manager. Returns whether only sizes
        differ."""
        resized = _STRATEGY.prepare_resize(new, stored, sizes_only)
        if self._manager is not None:
            self._manager.track(new, stored)
        return resized


def fill_in(pod: Object, stored: Object) -> bool | None:
    """Sets defaults. Returns True if the pod differs from the stored one in sizes only, None if that is not known.

    The merged pod shares all parts that the patch does not name with the stored pod, and parts to be modified are
    copied first. If nothing has to be defaulted, as after most resizes, the spec is not copied at all.
    """
    pod["metadata"] = dict(pod["metadata"])
    spec, kept = pod.get("spec") or {}, stored["spec"]
    if spec is kept or (differs_in_sizes_only(spec, kept) and has_its_defaults(spec, kept)):
        return True
    pod["spec"] = copied(spec)
    _STRATEGY.default(pod)
    return None
