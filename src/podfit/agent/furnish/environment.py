"""Builds a container's environment: literals, references, whole ConfigMaps and Secrets, and $(NAME) expansion."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from podfit.agent.furnish.volumes.downward import field_value, resource_value
from podfit.agent.furnish.volumes.objects import MissingObject, ReferencedObjects
from podfit.api.objects import Object
from podfit.api.quantity import Quantity

LARGEST = 8 << 20
"""Bytes of an environment, and of an expanded text. Linux accepts at most 6 MiB for a new process."""
_REFERENCE = re.compile(r"\$\$|\$\(([^()\s]+)\)")


def expand(text: str, known: Mapping[str, str]) -> str:
    """Replaces $(NAME) by its value and $$ by a dollar; unknown names stay as written. Raises MissingObject for a text
    too long for a process."""
    if "$" not in text:
        return text
    size = len(text)

    def replace(match: re.Match[str]) -> str:
        nonlocal size
        value = "$" if match[0] == "$$" else known.get(match[1], match[0])
        size += len(value)
        if size > LARGEST:
            raise MissingObject(f"$(NAME) references expand to more than {LARGEST} bytes")
        return value

    return _REFERENCE.sub(replace, text)


def expand_whole(text: str, known: Mapping[str, str]) -> str:
    """Expands a text in which every name must have a value. Raises MissingObject."""
    missing = sorted({match[1] for match in _REFERENCE.finditer(text) if match[1] and not known.get(match[1])})
    if missing:
        raise MissingObject(f"missing value for {', '.join(missing)}")
    return expand(text, known)


def expand_all(words: Iterable[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """Expands a command line. Raises MissingObject if it is too long for a process."""
    expanded, size = [], 0
    for word in words:
        expanded.append(expand(word, known))
        size += len(expanded[-1])
        _check_size(size, "command line")
    return tuple(expanded)


def _check_size(size: int, what: str = "environment") -> None:
    if size > LARGEST:
        raise MissingObject(f"the {what} is larger than {LARGEST} bytes")


class Environment:
    def __init__(
        self,
        objects: ReferencedObjects,
        node_name: str,
        host_ip: str,
        allocatable: Callable[[], Mapping[str, Quantity]] = dict,
        services: Callable[[Object, bool], dict[str, str]] | None = None,
    ) -> None:
        """`services`: variables of Services, for a pod with its own network or in the host's."""
        self._objects, self._node_name, self._allocatable = objects, node_name, allocatable
        self.host_ip = host_ip
        self._services = services

    async def of(self, pod: Object, container: Object, ips: tuple[str, ...]) -> dict[str, str]:
        """The environment of a container. `pod` has its allocated sizes, which resourceFieldRefs show. Raises
        MissingObject."""
        namespace = pod["metadata"].get("namespace") or "default"
        known = self._services(pod, bool(ips) and ips[0] != self.host_ip) if self._services is not None else {}
        size = 0
        for source in container.get("envFrom") or ():
            for name, value in (await self._whole(namespace, source)).items():
                known[f"{source.get('prefix') or ''}{name}"] = value
                size += len(value)
            _check_size(size)
        for variable in container.get("env") or ():
            if variable.get("valueFrom"):
                found = await self._referenced(pod, container, variable["valueFrom"], namespace, ips)
                if found is not None:
                    known[variable["name"]] = found
            else:
                known[variable["name"]] = expand(variable.get("value") or "", known)
            size += len(known.get(variable["name"], ""))
            _check_size(size)
        return known

    async def _whole(self, namespace: str, source: Mapping[str, Any]) -> dict[str, str]:
        if ref := source.get("configMapRef"):
            found = await self._objects.config_map(namespace, ref["name"])
            return dict((found or _absent("configmap", ref, namespace)).get("data") or {})
        ref = source["secretRef"]
        found = await self._objects.secret(namespace, ref["name"])
        data = (found or _absent("secret", ref, namespace)).get("data") or {}
        return {key: decoded(value) for key, value in data.items()}

    async def _referenced(
        self, pod: Object, container: Object, ref: Mapping[str, Any], namespace: str, ips: tuple[str, ...]
    ) -> str | None:
        if field := ref.get("fieldRef"):
            try:
                return field_value(pod, field["fieldPath"], self.host_ip, self._node_name, ips)
            except KeyError:
                raise MissingObject(f"unsupported fieldPath: {field['fieldPath']}") from None
        if field := ref.get("resourceFieldRef"):
            return resource_value(pod["spec"], container["name"], field, self._allocatable())
        if field := ref.get("configMapKeyRef"):
            found = await self._objects.config_map(namespace, field["name"])
            return _key(found or _absent("configmap", field, namespace), field, "ConfigMap", namespace)
        if field := ref.get("secretKeyRef"):
            found = await self._objects.secret(namespace, field["name"])
            value = _key(found or _absent("secret", field, namespace), field, "Secret", namespace)
            return decoded(value) if value is not None else None
        return ""


def decoded(value: str) -> str:
    return base64.b64decode(value).decode("utf-8", "surrogateescape")


def _absent(kind: str, ref: Mapping[str, Any], namespace: str) -> Object:
    if ref.get("optional"):
        return {}
    raise MissingObject(f'{kind} "{ref["name"]}" not found')


def _key(found: Object, ref: Mapping[str, Any], kind: str, namespace: str) -> str | None:
    data = found.get("data") or {}
    if ref["key"] in data:
        return str(data[ref["key"]])
    if ref.get("optional"):
        return None
    raise MissingObject(f"couldn't find key {ref['key']} in {kind} {namespace}/{ref['name']}")
