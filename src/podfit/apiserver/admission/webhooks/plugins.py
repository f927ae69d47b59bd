"""MutatingAdmissionWebhook and ValidatingAdmissionWebhook: call the hooks that match a write.

Mutating hooks are called in sequence, each with the result of the previous ones; a hook with reinvocationPolicy
IfNeeded is called again if the object changed after its call. Validating hooks are called concurrently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any, Protocol

from podfit.api.objects import Object
from podfit.api.patches import json_patch
from podfit.api.registry.kinds import Kind, kind_named
from podfit.api.schema import type_of
from podfit.api.schema.decoding.decode import DecodeError, convert
from podfit.api.status import ApiError, bad_request, internal_error
from podfit.apiserver.admission.base import Attributes, Cluster, Plugin, meta_of
from podfit.apiserver.admission.webhooks.call import DEFAULT_TIMEOUT_S, CallFailed, Hook, ResolveService, WebhookCaller
from podfit.apiserver.admission.webhooks.match import rules_match, selectors_match
from podfit.apiserver.admission.webhooks.review import (
    Answer,
    BadAnswer,
    HookView,
    denial,
    read_answer,
    request_of,
    review_of,
    review_version,
)
from podfit.apiserver.auth.authorize import Authorization
from podfit.apiserver.storage.usable import usable
from podfit.kit.concurrency.worker_threads import WorkerThreads

MUTATING = kind_named("MutatingWebhookConfiguration")
VALIDATING = kind_named("ValidatingWebhookConfiguration")
_EXEMPT = "admissionregistration.k8s.io"

Defaulter = Callable[[Attributes, Object], Object]
"""Sets the defaults of an object that a hook has changed."""
Concerned = tuple[str, Object, Kind]
"""A hook's identity, the hook, and the kind by which it matched."""


class Equivalents(Protocol):
    """Kinds that are the same resource under several names."""

    def equivalents(self, kind: Kind) -> Sequence[Kind]:
        """The other names of a kind."""

    async def convert(self, obj: Object, kind: Kind, other: Kind) -> Object: ...


class Webhooks:
    """Builds both webhook plugins, which share connections. Call `close` when the server stops."""

    def __init__(
        self,
        cluster: Cluster,
        resolve_service: ResolveService = lambda namespace, name, port: None,
        defaulter: Defaulter = lambda attrs, obj: obj,
        equivalents: Equivalents | None = None,
        authorization: Authorization | None = None,
    ) -> None:
        self._caller = WebhookCaller(resolve_service)
        shared = cluster, self._caller, equivalents, authorization
        self.mutating = MutatingAdmissionWebhook(*shared, defaulter)
        self.validating = ValidatingAdmissionWebhook(*shared)

    def serve_here(self, find: Callable[[str], Hook | None]) -> None:
        """`find` returns the hook of this process that serves a URL, if there is one."""
        self._caller.hook_here = find

    async def close(self) -> None:
        self.mutating.close()
        self.validating.close()
        await self._caller.close()


class _WebhookPlugin(Plugin):
    configurations: Kind

    def __init__(
        self,
        cluster: Cluster,
        caller: WebhookCaller,
        equivalents: Equivalents | None,
        authorization: Authorization | None,
    ) -> None:
        self._cluster, self._caller = cluster, caller
        self._equivalents, self._authorization = equivalents, authorization
        self._threads = WorkerThreads()
        self._stored: Sequence[Object] = ()
        self._usable: Sequence[Object] = ()
        """The stored configurations, and the usable ones among them."""
        self._known: Sequence[Object] = ()
        self._matched: dict[tuple[str, Kind, str], list[Concerned]] = {}
        """By operation, kind and subresource: the hooks of the configurations `_known` whose rules match."""

    def close(self) -> None:
        self._threads.close()

    def handles(self, attrs: Attributes) -> bool:
        # Hooks must not be able to block the repair of hooks.
        return attrs.kind.group != _EXEMPT

    def _concerned(self, attrs: Attributes) -> list[Concerned]:
        """The hooks whose rules and selectors match, by name of their configuration."""
        stored = self._cluster.list(self.configurations)
        if not stored:
            return []
        if stored is not self._stored:
            self._stored, self._usable = stored, usable(self.configurations, stored)
        configurations = self._usable
        found = self._by_rules(attrs, configurations)
        return [hook for hook in found if selectors_match(hook[1], attrs, self._cluster)] if found else found

    def _by_rules(self, attrs: Attributes, configurations: Sequence[Object]) -> list[Concerned]:
        if attrs.kind.custom:
            # The other names of a custom kind may change with its definition.
            return list(self._matching(attrs, configurations))
        if configurations is not self._known:
            self._known, self._matched = configurations, {}
        key = (attrs.operation, attrs.kind, attrs.subresource)
        found = self._matched.get(key)
        if found is None:
            found = self._matched[key] = list(self._matching(attrs, configurations))
        return found

    def _matching(self, attrs: Attributes, configurations: Sequence[Object]) -> Iterator[Concerned]:
        alike = self._equivalents.equivalents if self._equivalents is not None else lambda kind: ()
        for configuration in sorted(configurations, key=lambda each: str(meta_of(each).get("name"))):
            for index, hook in enumerate(configuration.get("webhooks") or ()):
                kind = rules_match(hook, attrs, alike)
                if kind is not None:
                    yield f"{meta_of(configuration).get('name')}/{index}/{hook.get('name')}", hook, kind

    async def _view(self, attrs: Attributes, kind: Kind) -> HookView:
        return HookView(
            kind,
            await self._converted(attrs.object, attrs.kind, kind),
            await self._converted(attrs.old, attrs.kind, kind),
        )

    async def _converted(self, obj: Object | None, kind: Kind, other: Kind) -> Object | None:
        # The body kind of a subresource (Scale, Eviction) is the same for all versions.
        if obj is None or kind is other or self._equivalents is None or obj.get("kind") != kind.kind:
            return obj
        return await self._equivalents.convert(obj, kind, other)

    async def _ask(self, hook: Object, attrs: Attributes, shown: HookView, *, may_patch: bool) -> Answer | None:
        """The hook's response; None if it need not be called, or failed and its failure policy is Ignore."""
        name = str(hook.get("name"))
        client, timeout_s = hook.get("clientConfig") or {}, int(hook.get("timeoutSeconds") or DEFAULT_TIMEOUT_S)
        if not hook.get("matchConditions") and not attrs.dry_run and self._may_skip(client, timeout_s, attrs):
            return None
        request = request_of(attrs, shown)
        if hook.get("matchConditions") and not await self._conditions_hold(hook, request, attrs):
            return None
        if attrs.dry_run and hook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise bad_request(f'admission webhook "{name}" does not support dry run')
        try:
            version = review_version(hook)
            body = await self._caller.post(client, review_of(request, version), timeout_s)
            answer = read_answer(body, request["uid"], may_patch=may_patch, version=version)
        except (CallFailed, BadAnswer) as error:
            if hook.get("failurePolicy") == "Ignore":
                return None
            raise _failed(name, error) from None
        attrs.warnings.extend(answer.warnings)
        attrs.annotations.update({f"{name}/{key}": value for key, value in answer.annotations.items()})
        if not answer.allowed:
            raise denial(name, answer.status)
        return answer

    async def _conditions_hold(self, hook: Object, request: Object, attrs: Attributes) -> bool:
        # Few hooks have conditions, so the evaluator is imported on first use.
        from podfit.apiserver.admission.webhooks.conditions import ConditionFailed, conditions_match

        try:
            return await conditions_match(hook, request, attrs, self._authorization, self._threads)
        except ConditionFailed as error:
            if hook.get("failurePolicy") == "Ignore":
                return False
            raise attrs.forbid(str(error)) from None

    def _may_skip(self, client: Object, timeout_s: int, attrs: Attributes) -> bool:
        try:
            return self._caller.may_skip(client, timeout_s, attrs.resource, attrs.namespace, attrs.object)
        except CallFailed:
            return False  # The call itself reports the error.


def _failed(name: str, error: Exception) -> ApiError:
    prefix = "failed to call webhook: " if isinstance(error, CallFailed) else "received invalid webhook response: "
    return internal_error(f'failed calling webhook "{name}": {prefix}{error}')


class MutatingAdmissionWebhook(_WebhookPlugin):
    name = "MutatingAdmissionWebhook"
    configurations = MUTATING

    def __init__(
        self,
        cluster: Cluster,
        caller: WebhookCaller,
        equivalents: Equivalents | None,
        authorization: Authorization | None,
        defaulter: Defaulter,
    ) -> None:
        super().__init__(cluster, caller, equivalents, authorization)
        self._defaulter = defaulter

    async def admit(self, attrs: Attributes) -> None:
        hooks = self._concerned(attrs)
        if not hooks:
            return
        memory: dict[str, Any] = attrs.state.setdefault(self.name, {"called": set(), "again": set(), "left": None})
        if attrs.reinvocation and attrs.object != memory["left"]:
            # Built-in plugins changed the object after the hooks ran: every hook with IfNeeded is called again.
            memory["again"], memory["called"] = memory["again"] | memory["called"], set()
        for identity, hook, kind in hooks:
            if attrs.reinvocation and identity not in memory["again"]:
                continue
            shown = await self._view(attrs, kind)
            answer = await self._ask(hook, attrs, shown, may_patch=True)
            if answer is not None and answer.patch and await self._apply(hook, attrs, shown, answer.patch):
                memory["again"], memory["called"] = memory["again"] | memory["called"], set()
                if not attrs.reinvocation:
                    attrs.reinvoke = True
            if hook.get("reinvocationPolicy") == "IfNeeded":
                memory["called"].add(identity)
        if attrs.reinvoke:
            memory["left"] = deepcopy(attrs.object)

    async def _apply(self, hook: Object, attrs: Attributes, shown: HookView, patch: bytes) -> bool:
        if shown.object is None:
            raise internal_error(
                f'admission webhook "{hook.get("name")}" attempted to modify the object, which is not supported '
                "for this operation"
            )
        try:
            patched = json_patch.apply(shown.object, patch)
        except ApiError as error:
            raise internal_error(str(error)) from None
        if not isinstance(patched, dict):
            raise internal_error("patched object is not an object")
        patched = _as_typed(patched, shown)
        patched = await self._converted(patched, shown.kind, attrs.kind) or patched
        # Defaults are set in place, and parts that the hook did not change may be shared with the stored object.
        patched = self._defaulter(attrs, patched if attrs.old is None else deepcopy(patched))
        changed: bool = patched != attrs.object
        attrs.object = patched
        return changed


def _as_typed(patched: Object, shown: HookView) -> Object:
    """The object returned by a hook, decoded as its kind: unknown fields and empty values are dropped, as in a
    request.
    """
    struct = None if shown.kind.custom or patched.get("kind") != shown.kind.kind else type_of(shown.kind)
    if struct is None:
        return patched
    try:
        return convert(patched, struct, field_validation="Ignore", base=shown.object).obj
    except DecodeError as error:
        raise internal_error(str(error)) from None


class ValidatingAdmissionWebhook(_WebhookPlugin):
    name = "ValidatingAdmissionWebhook"
    configurations = VALIDATING

    async def validate(self, attrs: Attributes) -> None:
        hooks = self._concerned(attrs)
        if not hooks:
            return
        asking = [self._ask(hook, attrs, await self._view(attrs, kind), may_patch=False) for _, hook, kind in hooks]
        answers: Sequence[Answer | BaseException | None] = await asyncio.gather(*asking, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
