"""Server-side apply in an older dialect: converts a configuration, which has only some fields, to its native form.

Fields with a native counterpart are applied natively, so that ownership is recorded for native fields. Dialect-only
fields are overlaid on the result in the dialect's form, and read back like any other write.
"""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, Kind
from podfit.api.resize.words import by_name
from podfit.apiserver.dialects import policies
from podfit.apiserver.dialects.base import CONTAINERS, Dialect

_OWN = "resourcesAllocated"


def native_configuration(dialect: Dialect, kind: Kind, applied: Object) -> Object:
    """The configuration with native policies, and without dialect-only fields."""
    if kind != POD:
        return policies.read_template(applied, kind, dialect.words)
    made = dict(applied)
    if isinstance(spec := applied.get("spec"), dict):
        made["spec"] = {key: _containers(dialect, spec[key]) if key in CONTAINERS else spec[key] for key in spec}
    if isinstance(status := applied.get("status"), dict):
        made["status"] = {
            key: [_without_own(container_status) for container_status in value] if key == "containerStatuses" else value
            for key, value in status.items()
            if key != "resize"
        }
    return made


def _containers(dialect: Dialect, listed: Any) -> Any:
    if not isinstance(listed, list):
        return listed
    return [_without_own(dialect.read_container(container, None, True)) for container in listed]


def _without_own(container: Object | None) -> Object | None:
    """A copy without dialect-only fields. Nulls in lists are kept: the native rules decide their effect."""
    return None if container is None else {key: value for key, value in container.items() if key != _OWN}


def overlaid(shown: Object, applied: Object) -> Object:
    """The merged object in the dialect's form, with the dialect-only fields of the configuration."""
    made = dict(shown)
    spec, status = applied.get("spec") or {}, applied.get("status") or {}
    if given := _own(spec.get("containers")):
        made["spec"] = {**shown["spec"], "containers": _with_own(shown["spec"]["containers"], given)}
    laid = dict(shown.get("status") or {})
    if given := _own(status.get("containerStatuses")):
        laid["containerStatuses"] = _with_own(laid.get("containerStatuses") or [], given)
    if "resize" in status:
        laid["resize"] = status["resize"]
    if laid != (shown.get("status") or {}):
        made["status"] = laid
    return made


def _own(listed: list[Object | None] | None) -> dict[str, Any]:
    objects = by_name([item for item in listed or () if item is not None])
    return {name: item[_OWN] for name, item in objects.items() if item.get(_OWN)}


def _with_own(listed: list[Object], given: dict[str, Any]) -> list[Object]:
    return [{**item, _OWN: given[item["name"]]} if item.get("name") in given else item for item in listed]
