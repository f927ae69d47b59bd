"""Validation of probes and lifecycle handlers."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid, not_supported, required
from podfit.api.text import names
from podfit.apiserver.strategy.checks import Errors, names_valid, non_negative, port

_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_IN_PROBES = ("exec", "httpGet", "tcpSocket", "grpc")
_IN_LIFECYCLE = ("exec", "httpGet", "tcpSocket", "sleep")
_SIGNALS = ("SIGTERM", "SIGKILL")


def probes(container: Object, grace_s: int | None, path: str, errors: Errors) -> None:
    """Validates lifecycle handlers and probes of a container that may have them."""
    if container.get("lifecycle"):
        lifecycle(container["lifecycle"], grace_s, f"{path}.lifecycle", errors)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        here = f"{path}.{name}"
        _probe(probe, grace_s, here, errors)
        if name == "readinessProbe":
            if probe.get("terminationGracePeriodSeconds") is not None:
                value = probe["terminationGracePeriodSeconds"]
                detail = "must not be set for readinessProbes"
                errors.append(invalid(f"{here}.terminationGracePeriodSeconds", value, detail))
        elif probe.get("successThreshold", 0) != 1:
            errors.append(invalid(f"{here}.successThreshold", probe.get("successThreshold", 0), "must be 1"))


def _probe(probe: Object, grace_s: int | None, path: str, errors: Errors) -> None:
    handler(probe, _IN_PROBES, grace_s, path, errors)
    for field in _NUMBERS:
        non_negative(probe, field, path, errors)
    own_grace = probe.get("terminationGracePeriodSeconds")
    if own_grace is not None and own_grace <= 0:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", own_grace, "must be greater than 0"))


def lifecycle(hooks: Object, grace_s: int | None, path: str, errors: Errors) -> None:
    for name in ("postStart", "preStop"):
        if hooks.get(name) is not None:
            handler(hooks[name], _IN_LIFECYCLE, grace_s, f"{path}.{name}", errors)


def handler(owner: Object, kinds: tuple[str, ...], grace_s: int | None, path: str, errors: Errors) -> None:
    found = False
    for kind in kinds:
        action = owner.get(kind)
        if action is None:
            continue
        if found:
            errors.append(forbidden(f"{path}.{kind}", "may not specify more than 1 handler type"))
            continue
        found = True
        _action(kind, action, grace_s, f"{path}.{kind}", errors)
    if not found:
        errors.append(required(path, "must specify a handler type"))


def _action(kind: str, action: Object, grace_s: int | None, path: str, errors: Errors) -> None:
    if kind == "exec":
        if not action.get("command"):
            errors.append(required(f"{path}.command"))
    elif kind == "httpGet":
        _http(action, path, errors)
    elif kind == "sleep":
        seconds = action.get("seconds", 0)
        if grace_s is not None and not 0 <= seconds <= grace_s:
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
            errors.append(invalid(path, seconds, detail))
    else:
        port(action.get("port"), f"{path}.port", errors)


def _http(action: Object, path: str, errors: Errors) -> None:
    if not action.get("path"):
        errors.append(required(f"{path}.path"))
    port(action.get("port"), f"{path}.port", errors)
    if action.get("scheme", "") not in ("HTTP", "HTTPS"):
        errors.append(not_supported(f"{path}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS")))
    for header in action.get("httpHeaders") or ():
        name = header.get("name", "")
        names_valid(name, f"{path}.httpHeaders", names.http_header_name(name), errors)


def stop_signal(hooks: Object, os_name: str, path: str, errors: Errors) -> None:
    """Validates lifecycle.stopSignal, which requires spec.os; only two signals are valid for Windows."""
    signal = hooks.get("stopSignal")
    if signal is None:
        return
    if not os_name:
        errors.append(forbidden(f"{path}.stopSignal", "may not be set for containers with empty `spec.os.name`"))
    elif os_name == "windows" and signal not in _SIGNALS:
        errors.append(not_supported(f"{path}.stopSignal", signal, _SIGNALS[::-1]))
