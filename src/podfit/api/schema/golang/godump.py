"""An object as Kubernetes' Go structs would print themselves: every field, set or not, with its Go name and type.

Names of ReplicaSets and DaemonSet revisions are hashes of this text, so clusters agree on a name only when the text
agrees letter for letter. Pure; reads the field tables. `controllers.workloads.hashing` calls it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from podfit.api.objects import Object
from podfit.api.quantity import BINARY_SI, DECIMAL_EXPONENT, DECIMAL_SI, Quantity
from podfit.api.schema.golang.gonames import go_name
from podfit.api.schema.types import Field, ListOf, MapOf, Scalar, Struct, Type

_REFERENCE = ("LocalObjectReference", ("name",))
_EMBEDDED: dict[str, tuple[str, tuple[str, ...]]] = {
    "ConfigMapEnvSource": _REFERENCE,
    "ConfigMapKeySelector": _REFERENCE,
    "ConfigMapProjection": _REFERENCE,
    "ConfigMapVolumeSource": _REFERENCE,
    "SecretEnvSource": _REFERENCE,
    "SecretKeySelector": _REFERENCE,
    "SecretProjection": _REFERENCE,
    "Probe": ("ProbeHandler", ("exec", "httpGet", "tcpSocket", "grpc")),
}
"""Go structs that embed another one: JSON shows the fields flat, Go prints them inside."""
_EMBEDDED_BUT = {
    "Volume": ("VolumeSource", "name"),
    "EphemeralContainer": ("EphemeralContainerCommon", "targetContainerName"),
}
"""Structs in which all fields but one belong to the embedded struct."""
_ADDED = {"PodSpec": frozenset(("virtualMachine",))}
"""Fields that Kubernetes does not have: printed only if they are set, so that all other names stay the same."""
_BINARY_DIGITS, _DECIMAL_DIGITS = 14, 18
_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_POWERS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_TO_UNIX_EPOCH = 62135596800
_NIL = "<nil>"


def go_dump(value: Object, struct: Struct) -> str:
    """The text of an object, starting with the name of the outermost type."""
    return f"({struct.go}){_struct(value, struct)}"


def _struct(value: Object, struct: Struct) -> str:
    parts: list[str] = []
    inner: list[str] = []
    embedded, members = _embedded(struct)
    added = _ADDED.get(struct.name, ())
    for row in struct:
        if row.name in added and value.get(row.name) is None:
            continue
        text = _field(struct, row, value.get(row.name))
        if row.name not in members:
            parts.append(text)
            continue
        if not inner:
            parts.append("")
            place = len(parts) - 1
        inner.append(text)
    if inner:
        parts[place] = f"{embedded}:(v1.{embedded}){{{' '.join(inner)}}}"
    return "{" + " ".join(parts) + "}"


def _embedded(struct: Struct) -> tuple[str, tuple[str, ...]]:
    if struct.name in _EMBEDDED_BUT:
        name, own = _EMBEDDED_BUT[struct.name]
        return name, tuple(field for field in struct.fields if field != own)
    return _EMBEDDED.get(struct.name, ("", ()))


def _field(struct: Struct, row: Field, value: Any) -> str:
    name = go_name(struct, row.name)
    if row.pointer:
        return f"{name}:(*{row.type.go}){_NIL if value is None else _value(value, row.type)}"
    return f"{name}:({row.type.go}){_value(value, row.type)}"


def _value(value: Any, kind: Type) -> str:
    if isinstance(kind, Struct):
        return _struct(value or {}, kind)
    if isinstance(kind, ListOf):
        # The wire format of Go components has no empty lists: they arrive as nil.
        return f"[{' '.join(_value(item, kind.item) for item in value)}]" if value else _NIL
    if isinstance(kind, MapOf):
        if not value:
            return _NIL
        return f"map[{' '.join(f'{key}:{_value(value[key], kind.value)}' for key in _sorted(value))}]"
    return _scalar(value, kind)


def _sorted(keys: Object) -> list[str]:
    return sorted(keys, key=str.encode)


def _scalar(value: Any, kind: Scalar) -> str:
    if kind.form in ("Quantity", "Resource"):
        return _quantity(str(Quantity.parse(value if value is not None else "0")))
    if kind.form == "IntOrString":
        text = isinstance(value, str)
        number, word = (0, value) if text else (value or 0, "")
        return f"{{Type:(intstr.Type){int(text)} IntVal:(int32){number} StrVal:(string){word}}}"
    if kind.form == "Time":
        return f"{{Time:(time.Time){_time(value)}}}"
    if kind.form == "bool":
        return "true" if value else "false"
    if kind.form == "string":
        return value or ""
    return str(value or 0)


def _time(value: str | None) -> str:
    seconds = 0
    if value:
        seconds = int(datetime.fromisoformat(value).astimezone(UTC).timestamp()) + _TO_UNIX_EPOCH
    return f"{{wall:(uint64)0 ext:(int64){seconds} loc:(*time.Location){_NIL}}}"


def _quantity(text: str) -> str:
    """A quantity in canonical form as Go stores it: a scaled 64-bit number if it fits well, otherwise a big one; and
    its text if parsing yields the canonical form at no cost."""
    digits = text.lstrip("-").rstrip("eEinumkKMGTP") if "e" not in text else text.lstrip("-").partition("e")[0]
    suffix = text.lstrip("-")[len(digits) :]
    number = -int(digits) if text.startswith("-") else int(digits)
    if suffix in _POWERS:
        return _binary(text, number, digits, _POWERS[suffix])
    exponent = int(suffix[1:]) if suffix.startswith("e") else _SUFFIXES[suffix]
    form = DECIMAL_EXPONENT if suffix.startswith("e") else DECIMAL_SI
    if len(digits) > _DECIMAL_DIGITS or exponent < -9:
        return _big(number * 10 ** (exponent + 9), 9, form)
    known = exponent % 3 == 0 and not digits.endswith("000") and (digits[0] != "0" or text == "0")
    return _small(number, exponent, text if known else "", form)


def _binary(text: str, number: int, digits: str, power: int) -> str:
    if _BINARY_DIGITS - len(digits) - power * 3 // 10 < 0:
        largest = 2**63 - 1
        if number << power > largest:
            return _big(largest, 0, BINARY_SI)
        return _big((number << power) * 10**9, 9, BINARY_SI)
    return _small(number << power, 0, text if number & 7 else "", BINARY_SI)


def _small(value: int, scale: int, text: str, form: str) -> str:
    amount = f"{{value:(int64){value} scale:(resource.Scale){scale}}}"
    nothing = f"{{Dec:(*inf.Dec){_NIL}}}"
    return _amounts(amount, nothing, text, form)


def _big(unscaled: int, scale: int, form: str) -> str:
    words, rest = [], abs(unscaled)
    while rest:
        words.append(str(rest & (2**64 - 1)))
        rest >>= 64
    whole = f"{{neg:(bool){'true' if unscaled < 0 else 'false'} abs:(big.nat)[{' '.join(words)}]}}"
    decimal = f"{{Dec:(*inf.Dec){{unscaled:(big.Int){whole} scale:(inf.Scale){scale}}}}}"
    return _amounts("{value:(int64)0 scale:(resource.Scale)0}", decimal, "", form)


def _amounts(small: str, big: str, text: str, form: str) -> str:
    amounts = f"i:(resource.int64Amount){small} d:(resource.infDecAmount){big}"
    return f"{{{amounts} s:(string){text} Format:(resource.Format){form}}}"
