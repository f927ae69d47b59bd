"""MutatingAdmissionWebhook and ValidatingAdmissionWebhook: ask the hooks a write concerns.

Mutating hooks are asked one after the other, each seeing what those before it made of the object; a hook with
reinvocationPolicy IfNeeded is asked a second time when the object changed after its turn. Validating hooks are asked
at the same time.
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
from podfit.apiserver.admission.webhooks.call import DEFAULT_TIMEOUT_S, Caller, CallFailed, Hook, ResolveService
from podfit.apiserver.admission.webhooks.match import rules_match, selectors_match
from podfit.apiserver.admission.webhooks.review import (
    Answer,
    BadAnswer,
    Shown,
    denial,
    read_answer,
    request_of,
    review_of,
    spoken_by,
)
from podfit.apiserver.auth.authorize import Authorization
from podfit.apiserver.storage.usable import usable
from podfit.kit.concurrency.aside import Aside

MUTATING = kind_named("MutatingWebhookConfiguration")
VALIDATING = kind_named("ValidatingWebhookConfiguration")
_EXEMPT = "admissionregistration.k8s.io"

Defaulter = Callable[[Attributes, Object], Object]
"""Fills in the defaults of an object a hook has changed."""
Concerned = tuple[str, Object, Kind]
"""A hook's identity, the hook, and the kind it knows."""


class Equivalents(Protocol):
    """Kinds that are one resource by several names."""

    def alike(self, kind: Kind) -> Sequence[Kind]:
        """The other names of a kind."""

    async def convert(self, obj: Object, kind: Kind, other: Kind) -> Object: ...


class Webhooks:
    """Both plugins around one set of connections. `close` when the server stops."""

    def __init__(
        self,
        cluster: Cluster,
        resolve_service: ResolveService = lambda namespace, name, port: None,
        defaulter: Defaulter = lambda attrs, obj: obj,
        equivalents: Equivalents | None = None,
        authorization: Authorization | None = None,
    ) -> None:
        self._caller = Caller(resolve_service)
        shared = cluster, self._caller, equivalents, authorization
        self.mutating = MutatingAdmissionWebhook(*shared, defaulter)
        self.validating = ValidatingAdmissionWebhook(*shared)

    def serve_here(self, find: Callable[[str], Hook | None]) -> None:
        """`find` names the hook of this process that is served at a URL, if one is."""
        self._caller.hook_here = find

    async def close(self) -> None:
        self.mutating.close()
        self.validating.close()
        await self._caller.close()


class _WebhookPlugin(Plugin):
    configurations: Kind

    def __init__(
        self, cluster: Cluster, caller: Caller, equivalents: Equivalents | None, authorization: Authorization | None
    ) -> None:
        self._cluster, self._caller = cluster, caller
        self._equivalents, self._authorization = equivalents, authorization
        self._aside = Aside()
        self._stored: Sequence[Object] = ()
        self._usable: Sequence[Object] = ()
        """What is stored, and those of it that can be used."""
        self._known: Sequence[Object] = ()
        self._matched: dict[tuple[str, Kind, str], list[Concerned]] = {}
        """By operation, kind and subresource: the hooks of the configurations `_known` whose rules match."""

    def close(self) -> None:
        self._aside.close()

    def handles(self, attrs: Attributes) -> bool:
        # Hooks may not stand in the way of repairing hooks.
        return attrs.kind.group != _EXEMPT

    def _concerned(self, attrs: Attributes) -> list[Concerned]:
        """Those whose rules and selectors match, by name of their configuration."""
        stored = self._cluster.list(self.configurations)
        if not stored:
            return []
        if stored is not self._stored:
            self._stored, self._usable = stored, usable(self.configurations, stored)
        configurations = self._usable
        found = self._by_rules(attrs, configurations)
        return [one for one in found if selectors_match(one[1], attrs, self._cluster)] if found else found

    def _by_rules(self, attrs: Attributes, configurations: Sequence[Object]) -> list[Concerned]:
        if attrs.kind.custom:
            # By which other names it goes may change with its definition.
            return list(self._matching(attrs, configurations))
        if configurations is not self._known:
            self._known, self._matched = configurations, {}
        key = (attrs.operation, attrs.kind, attrs.subresource)
        found = self._matched.get(key)
        if found is None:
            found = self._matched[key] = list(self._matching(attrs, configurations))
        return found

    def _matching(self, attrs: Attributes, configurations: Sequence[Object]) -> Iterator[Concerned]:
        alike = self._equivalents.alike if self._equivalents is not None else lambda kind: ()
        for configuration in sorted(configurations, key=lambda each: str(meta_of(each).get("name"))):
            for index, hook in enumerate(configuration.get("webhooks") or ()):
                kind = rules_match(hook, attrs, alike)
                if kind is not None:
                    yield f"{meta_of(configuration).get('name')}/{index}/{hook.get('name')}", hook, kind

    async def _shown(self, attrs: Attributes, kind: Kind) -> Shown:
        return Shown(
            kind,
            await self._converted(attrs.object, attrs.kind, kind),
            await self._converted(attrs.old, attrs.kind, kind),
        )

    async def _converted(self, obj: Object | None, kind: Kind, other: Kind) -> Object | None:
        # What a subresource speaks instead (Scale, Eviction) is the same for all versions.
        if obj is None or kind is other or self._equivalents is None or obj.get("kind") != kind.kind:
            return obj
        return await self._equivalents.convert(obj, kind, other)

    async def _ask(self, hook: Object, attrs: Attributes, shown: Shown, *, may_patch: bool) -> Answer | None:
        """The hook's answer; None when it is not to be asked, or failed and its policy is to go on."""
        name = str(hook.get("name"))
        client, timeout_s = hook.get("clientConfig") or {}, int(hook.get("timeoutSeconds") or DEFAULT_TIMEOUT_S)
        if not hook.get("matchConditions") and not attrs.dry_run and self._lets_pass(client, timeout_s, attrs):
            return None
        request = request_of(attrs, shown)
        if hook.get("matchConditions") and not await self._conditions_hold(hook, request, attrs):
            return None
        if attrs.dry_run and hook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise bad_request(f'admission webhook "{name}" does not support dry run')
        try:
            version = spoken_by(hook)
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
        # Few hooks have conditions, and few servers need all it takes to evaluate them.
        from podfit.apiserver.admission.webhooks.conditions import ConditionFailed, conditions_match

        try:
            return await conditions_match(hook, request, attrs, self._authorization, self._aside)
        except ConditionFailed as error:
            if hook.get("failurePolicy") == "Ignore":
                return False
            raise attrs.forbid(str(error)) from None

    def _lets_pass(self, client: Object, timeout_s: int, attrs: Attributes) -> bool:
        try:
            return self._caller.lets_pass(client, timeout_s, attrs.resource, attrs.namespace, attrs.object)
        except CallFailed:
            return False  # asking it will tell what is wrong


def _failed(name: str, error: Exception) -> ApiError:
    prefix = "failed to call webhook: " if isinstance(error, CallFailed) else "received invalid webhook response: "
    return internal_error(f'failed calling webhook "{name}": {prefix}{error}')


class MutatingAdmissionWebhook(_WebhookPlugin):
    name = "MutatingAdmissionWebhook"
    configurations = MUTATING

    def __init__(
        self,
        cluster: Cluster,
        caller: Caller,
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
        memory: dict[str, Any] = attrs.state.setdefault(self.name, {"asked": set(), "again": set(), "left": None})
        if attrs.reinvocation and attrs.object != memory["left"]:
            # Built-in plugins changed the object since: every hook that asked for it gets another look.
            memory["again"], memory["asked"] = memory["again"] | memory["asked"], set()
        for identity, hook, kind in hooks:
            if attrs.reinvocation and identity not in memory["again"]:
                continue
            shown = await self._shown(attrs, kind)
            answer = await self._ask(hook, attrs, shown, may_patch=True)
            if answer is not None and answer.patch and await self._apply(hook, attrs, shown, answer.patch):
                memory["again"], memory["asked"] = memory["again"] | memory["asked"], set()
                if not attrs.reinvocation:
                    attrs.reinvoke = True
            if hook.get("reinvocationPolicy") == "IfNeeded":
                memory["asked"].add(identity)
        if attrs.reinvoke:
            memory["left"] = deepcopy(attrs.object)

    async def _apply(self, hook: Object, attrs: Attributes, shown: Shown, patch: bytes) -> bool:
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
        # Defaults are filled in in place, and what the hook left alone may be the stored object's.
        patched = self._defaulter(attrs, patched if attrs.old is None else deepcopy(patched))
        changed: bool = patched != attrs.object
        attrs.object = patched
        return changed


def _as_typed(patched: Object, shown: Shown) -> Object:
    """What a hook made of an object, read as its kind: unknown fields and empty values go, as in a request."""
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
        asking = [self._ask(hook, attrs, await self._shown(attrs, kind), may_patch=False) for _, hook, kind in hooks]
        answers: Sequence[Answer | BaseException | None] = await asyncio.gather(*asking, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
