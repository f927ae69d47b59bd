"""Parses command lines of the autoscaler's components: upstream's flag names and spellings, into configuration values.

A configuration is a dataclass whose fields are named as the flags (underscores for dashes). Fields of a nested
configuration are flags of the same command. Durations are written as in Go (`1m30s`, also `8d`) and stored in seconds.
"""

from __future__ import annotations

import os
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import Any, TypeVar

from podfit.api.quantity import Quantity, QuantityError
from podfit.kit.durations import UNITS_S, go_duration
from podfit.vpa.flag_texts import TEXTS

T = TypeVar("T")

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d|w)")
_TRUE, _FALSE = ("1", "t", "true"), ("0", "f", "false")
IGNORED = (
    *("add-dir-header", "alsologtostderr", "log-backtrace-at", "log-dir", "log-file", "log-file-max-size"),
    *("logtostderr", "min-checkpoints", "one-output", "skip-headers", "skip-log-headers", "stderrthreshold", "vmodule"),
)
"""Flags that are accepted, because manifests set them, and have no effect: logs go to standard error, one line each."""
GATES = ("CPUStartupBoost", "InPlace", "PerVPAConfig")
_GROUPS, _GONE = {"AllAlpha": GATES, "AllBeta": ()}, ("InPlaceOrRecreate",)
"""Gates that represent groups of gates, and gates of older releases whose feature is always on."""


NUMBERS = frozenset(
    (
        "recommendation-margin-fraction",
        "pod-recommendation-min-cpu-millicores",
        "pod-recommendation-min-memory-mb",
        "target-cpu-percentile",
        "recommendation-lower-bound-cpu-percentile",
        "recommendation-upper-bound-cpu-percentile",
        "target-memory-percentile",
        "recommendation-lower-bound-memory-percentile",
        "recommendation-upper-bound-memory-percentile",
        "oom-bump-up-ratio",
        "oom-min-bump-up-bytes",
        "kube-api-qps",
        "kube-api-burst",
        "eviction-tolerance",
        "eviction-rate-limit",
        "pod-update-threshold",
        "low-confidence-below",
        "small-group-margin",
        "starved-above",
        "starvation-growth",
        "throttled-above",
        "throttled-growth",
        "changes-per-minute",
        "scale-down-step",
        "undo-throttled-above",
        "prometheus-queries-per-second",
    )
)
"""Flags that are plain numbers; other fractional values are durations."""


class BadFlag(ValueError):
    """An invalid flag; the message names it, and states the reason."""


class WrongLine(BadFlag):
    """The command line itself is malformed."""

    exit_code = 2


def duration(text: str) -> float:
    """Parses a Go duration into seconds."""
    if text in ("0", "+0", "-0"):
        return 0.0
    sign, rest = (-1.0, text[1:]) if text.startswith("-") else (1.0, text.removeprefix("+"))
    if not rest or _PART.sub("", rest):
        raise ValueError(f'time: invalid duration "{text}"')
    return sign * sum(float(number) * UNITS_S[unit] for number, unit in _PART.findall(rest))


def parse(default: T, arguments: Sequence[str]) -> T:
    """The configuration with the flags of a command line applied. Raises BadFlag."""
    changes: dict[str, dict[str, Any]] = {}
    known = _known(default)
    for name, text in _pairs(arguments, known):
        if name in IGNORED:
            continue
        holder, field, kind = known[name]
        changes.setdefault(holder, {})[field.name] = _value(name, text, kind)
    inner = {holder: replace(getattr(default, holder), **values) for holder, values in changes.items() if holder}
    return replace(default, **{**changes.get("", {}), **inner})  # type: ignore[type-var]


def described(default: Any) -> Iterator[tuple[str, str, str]]:
    """All flags with their defaults and descriptions, for help texts."""
    for name, (holder, field, kind) in sorted(_known(default).items()):
        value = getattr(getattr(default, holder) if holder else default, field.name)
        shown = go_duration(value) if kind is float and name not in NUMBERS else _formatted(value)
        yield f"--{name}", shown, TEXTS[name]


Known = dict[str, tuple[str, "Field[Any]", Any]]


def _known(default: Any) -> Known:
    found: Known = {}
    hints = typing.get_type_hints(type(default))
    for field in fields(default):
        value = getattr(default, field.name)
        if is_dataclass(value):
            inner = typing.get_type_hints(type(value))
            for setting in fields(value):
                found.setdefault(_flag(setting), (field.name, setting, inner[setting.name]))
        else:
            found[_flag(field)] = ("", field, hints[field.name])
    return found


def _flag(field: Field[Any]) -> str:
    name: str = field.metadata.get("flag") or field.name.removesuffix("_s").replace("_", "-")
    return name


def _pairs(arguments: Sequence[str], known: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    waiting = list(reversed(arguments))
    while waiting:
        argument = waiting.pop()
        if not argument.startswith("-"):
            raise WrongLine(f"unexpected argument: {argument}")
        name, equals, text = argument.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if name not in known and name not in IGNORED:
            raise WrongLine(f"unknown flag: --{name}")
        if not equals:
            is_flag = name in known and known[name][2] is bool
            follows = bool(waiting) and not waiting[-1].startswith("--")
            if is_flag or (name in IGNORED and not follows):
                text = "true"
            elif waiting:
                text = waiting.pop()
            else:
                raise WrongLine(f"flag needs an argument: --{name}")
        yield name, text


def _value(name: str, text: str, kind: Any) -> Any:
    try:
        return _converted(name, text, kind)
    except (ValueError, QuantityError) as error:
        raise WrongLine(f'invalid argument "{text}" for "--{name}" flag: {error}') from error


def _converted(name: str, text: str, kind: Any) -> Any:
    if kind is bool:
        return _bool(text)
    if kind is int:
        return _number(int, "ParseInt", text)
    if kind is float and name in NUMBERS:
        return _number(float, "ParseFloat", text)
    if kind is float:
        # A bare number is in seconds.
        return float(text) if re.fullmatch(r"[+-]?[0-9.]+(e[+-]?\d+)?", text) else duration(text)
    if kind is str:
        return text
    if "Quantity" in str(kind):
        return Quantity.parse(text) if text else None
    if "dict" in str(kind):
        return gates(text)
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _number(make: Callable[[str], T], named: str, text: str) -> T:
    try:
        return make(text)
    except ValueError:
        raise ValueError(f'strconv.{named}: parsing "{text}": invalid syntax') from None


def _bool(text: str) -> bool:
    if text.lower() not in _TRUE + _FALSE:
        raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')
    return text.lower() in _TRUE


def gates(text: str) -> dict[str, bool]:
    """Parses `A=true,B=false`. A gate's own entry overrides that of a group of gates."""
    found: dict[str, bool] = {}
    groups: dict[str, bool] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"missing bool value for {name}")
        try:
            on = _bool(value)
        except ValueError as error:
            raise ValueError(f"invalid value of {name}={value}, err: {error}") from None
        if name in _GROUPS:
            groups |= dict.fromkeys(_GROUPS[name], on)
        elif name in GATES:
            found[name] = on
        elif name not in _GONE:
            raise ValueError(f"unrecognized feature gate: {name}")
    return groups | found


def _formatted(value: Any) -> str:
    if value is None or value is MISSING:
        return ""
    if isinstance(value, dict):
        return ",".join(f"{name}={str(on).lower()}" for name, on in value.items())
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def namespaces_apart(selected: str, ignored: Iterable[str]) -> None:
    if selected and tuple(ignored):
        raise BadFlag("--vpa-object-namespace and --ignored-vpa-object-namespaces cannot be set together")


def own_namespace() -> str:
    """The namespace that the component runs in, as set in its manifest."""
    return os.environ.get("NAMESPACE") or "kube-system"
