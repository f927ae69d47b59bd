"""Resize policies of containers in a dialect. Pure.

Natively a policy is `{resourceName, restartPolicy: NotRequired | RestartContainer}`, and none means NotRequired. All
dialects set the default for each resource that a container requests; the default is derived and never stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, Kind
from podfit.api.resize.words import RESIZABLE
from podfit.api.status import INVALID, FieldError, duplicate, go_quote, invalid, not_supported, required
from podfit.apiserver.dialects.types import StructDiff, edit, word

NOT_REQUIRED, RESTART = "NotRequired", "RestartContainer"
Change = Callable[[Object], Object]
_FOREIGN = "\0"
"""A prefix for a value that the dialect does not define, so that it is not mistaken for a native one before it is
rejected.
"""
_TEMPLATE = ("spec", "template")
_GROUPS = frozenset(("", "apps", "batch"))
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "deployments": _TEMPLATE,
    "replicasets": _TEMPLATE,
    "statefulsets": _TEMPLATE,
    "daemonsets": _TEMPLATE,
    "jobs": _TEMPLATE,
    "replicationcontrollers": _TEMPLATE,
    "cronjobs": ("spec", "jobTemplate", *_TEMPLATE),
    "podtemplates": ("template",),
}
"""The path of the pod template in workload kinds."""


def may_translate(kind: Kind) -> bool:
    """Whether a dialect's form of objects of the kind may differ from the stored one."""
    return not kind.custom and (kind == POD or (kind.plural in TEMPLATES and kind.group in _GROUPS))


@dataclass(frozen=True)
class Words:
    """The name of a policy's field, and its two values."""

    key: str = "restartPolicy"
    not_required: str = NOT_REQUIRED
    restart: str = RESTART
    on_init: bool = True
    """Whether init containers may have policies."""
    edits: Mapping[str, StructDiff] = field(default_factory=dict)

    @property
    def renames(self) -> bool:
        return self.key != "restartPolicy"

    def shown(self, native: str) -> str:
        if not self.renames:
            return native
        if native.startswith(_FOREIGN):
            return native[1:]
        return {NOT_REQUIRED: self.not_required, RESTART: self.restart}.get(native, native)

    def read(self, written: str) -> str:
        if not self.renames:
            return written
        return {self.not_required: NOT_REQUIRED, self.restart: RESTART}.get(
            written, _FOREIGN + written if written else ""
        )


RELEASED = Words(on_init=False)
"""Of Kubernetes 1.31 and 1.32."""


def renamed(not_required: str, restart: str) -> Words:
    """The names in the designs of 2020 and 2021: `{resourceName, policy}`."""
    policy = edit(("restartPolicy",), word("policy", "v1.ResizePolicy", required=True))
    return Words("policy", not_required, restart, edits={"ContainerResizePolicy": policy})


# --- containers -------------------------------------------------------------------------------------------------------


def shown(container: Object, words: Words, defaulted: bool) -> list[Object]:
    """The policies of a native container; `defaulted`: including default ones."""
    listed = [_show(policy, words) for policy in container.get("resizePolicy") or ()]
    return filled(listed, container, words) if defaulted else listed


def filled(listed: list[Object], container: Object, words: Words) -> list[Object]:
    requests = _requests(container.get("resources") or {})
    named = {policy.get("resourceName") for policy in listed}
    missing = [name for name in RESIZABLE if name in requests and name not in named]
    return listed + [{"resourceName": name, words.key: words.not_required} for name in missing]


def _requests(resources: Object) -> set[str]:
    """The requests of a container after defaulting."""
    return {*(resources.get("requests") or ()), *(resources.get("limits") or ())}


def read(submitted: Object, old: Object | None, words: Words, defaulted: bool, kept: bool) -> list[Object] | None:
    """The native form of the policies that a client wrote; `kept`: omitted policies keep their stored value."""
    listed = submitted.get("resizePolicy")
    if old is not None:
        if kept and not listed:
            return old.get("resizePolicy")
        mine = filled(list(listed or ()), submitted, words) if defaulted else list(listed or ())
        if mine == shown({**old, "resources": submitted.get("resources") or {}}, words, defaulted):
            return old.get("resizePolicy")
    return None if listed is None else [_read(policy, words) for policy in listed]


def _show(policy: Object, words: Words) -> Object:
    if not words.renames:
        return policy
    rest = {key: value for key, value in policy.items() if key != "restartPolicy"}
    return {**rest, words.key: words.shown(policy.get("restartPolicy", ""))}


def _read(policy: Any, words: Words) -> Any:
    """The native form of one policy. A null in an applied configuration is kept: the native rules decide its effect."""
    if not words.renames or policy is None:
        return policy
    rest = {key: value for key, value in policy.items() if key != words.key}
    return {**rest, "restartPolicy": words.read(policy.get(words.key) or "")}


def errors(spec: Object, path: str, words: Words) -> list[FieldError]:
    """Errors in the policies of a native pod spec, in the wording of the dialect."""
    found: list[FieldError] = []
    for key in ("containers", "initContainers"):
        for at, container in enumerate(spec.get(key) or ()):
            if container.get("resizePolicy"):
                where = f"{path}.{key}[{at}].resizePolicy"
                _check(container["resizePolicy"], spec.get("restartPolicy") or "Always", where, words, found)
                if key == "initContainers" and not words.on_init:
                    shown = _go_list(container["resizePolicy"])
                    found.append(FieldError(INVALID, where, "must not be set for init containers", shown))
    return found


def _go_list(listed: list[Object]) -> str:
    """Formats the list as Go prints it."""
    template = "core.ContainerResizePolicy{{ResourceName:{}, RestartPolicy:{}}}"
    fields = ("resourceName", "restartPolicy")
    rows = [template.format(*(go_quote(policy.get(name) or "") for name in fields)) for policy in listed]
    return f"[]core.ContainerResizePolicy{{{', '.join(rows)}}}"


def worded(found: list[FieldError], spec: Object, path: str, words: Words) -> list[FieldError]:
    """Errors about a native pod spec, with those about policies in the wording of the dialect."""
    native = [_ON_POLICY.match(error.path[len(path) :]) is not None for error in found]
    at = native.index(True) if True in native else len(found)
    kept = [error for error, mine in zip(found, native, strict=True) if not mine]
    kept[at:at] = errors(spec, path, words)
    return kept


_ON_POLICY = re.compile(r"\.(initContainers|containers)\[\d+\]\.resizePolicy")


def _check(listed: list[Object], restart_policy: str, path: str, words: Words, found: list[FieldError]) -> None:
    seen: set[str] = set()
    for at, policy in enumerate(listed):
        name, value = policy.get("resourceName", ""), words.shown(policy.get("restartPolicy", ""))
        if name in seen:
            found.append(replace(duplicate(f"{path}[{at}]", name), value=name))
        seen.add(name)
        if not name:
            found.append(required(path))
        elif name not in RESIZABLE:
            # Names of resources are printed without quotes.
            found.append(replace(not_supported(path, name, RESIZABLE), value=name))
        if not value:
            found.append(required(path))
        elif value not in (allowed := (words.not_required, words.restart)):
            found.append(not_supported(path, value, sorted(allowed)))
        if restart_policy == "Never" and value != words.not_required:
            detail = f"must be '{words.not_required}' when `restartPolicy` is 'Never'"
            found.append(invalid(path, value, detail))


# --- templates --------------------------------------------------------------------------------------------------------


def show_template(obj: Object, kind: Kind, words: Words) -> Object:
    return _with_template(
        obj, TEMPLATES[kind.plural], lambda container: {"resizePolicy": shown(container, words, False)}
    )


def named_as(obj: Object, kind: Kind, words: Words) -> Object:
    """Renames the second field of policies in an object from protobuf, which has field numbers instead of names."""
    if not words.renames:
        return obj
    return _with_template(
        obj, TEMPLATES.get(kind.plural, ()), lambda container: {"resizePolicy": _named(container, words)}
    )


def _named(container: Object, words: Words) -> list[Object]:
    return [
        {words.key if key == "restartPolicy" else key: value for key, value in policy.items()}
        for policy in container["resizePolicy"]
    ]


def read_template(obj: Object, kind: Kind, words: Words) -> Object:
    return _with_template(
        obj,
        TEMPLATES[kind.plural],
        lambda container: {"resizePolicy": [_read(policy, words) for policy in container["resizePolicy"]]},
    )


def template_errors(obj: Object, kind: Kind, words: Words) -> list[FieldError]:
    """Like `errors`, for a native object with a pod template."""
    return errors(*_spec_of(obj, kind), words)


def worded_template(found: list[FieldError], obj: Object, kind: Kind, words: Words) -> list[FieldError]:
    """Errors about a native object with a template, with those about policies in the wording of the dialect."""
    return worded(found, *_spec_of(obj, kind), words)


def _spec_of(obj: Object, kind: Kind) -> tuple[Object, str]:
    """The pod spec in the template of an object, and its path."""
    where, spec = TEMPLATES[kind.plural], obj
    for part in (*where, "spec"):
        spec = spec.get(part) or {}
    return spec, ".".join((*where, "spec"))


def _with_template(obj: Object, path: tuple[str, ...], change: Change) -> Object:
    """A copy with the containers of its template changed; the object itself if none has a policy."""
    if path:
        inner = obj.get(path[0])
        if not isinstance(inner, dict):
            return obj
        made = _with_template(inner, path[1:], change)
        return obj if made is inner else {**obj, path[0]: made}
    spec = obj.get("spec") or {}
    changed = {
        key: [
            {**container, **change(container)} if container.get("resizePolicy") else container
            for container in spec[key]
        ]
        for key in ("containers", "initContainers")
        if any(container.get("resizePolicy") for container in spec.get(key) or ())
    }
    return {**obj, "spec": {**spec, **changed}} if changed else obj
