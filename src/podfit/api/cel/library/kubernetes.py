"""Kubernetes' own types: quantities, semantic versions, named formats."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from podfit.api.cel.library.addresses import url_problem
from podfit.api.cel.library.functions import Library
from podfit.api.cel.values import INT_MAX, INT_MIN, NONE, Failed, Maybe, Opaque
from podfit.api.quantity import DECIMAL_EXPONENT, NANO, Quantity, QuantityError
from podfit.api.text import names
from podfit.api.text.formats import FORMATS

LIBRARY = Library()
_add = LIBRARY.add
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+")


class QuantityValue(Opaque):
    __slots__ = ("quantity",)
    type_name = "kubernetes.Quantity"

    def __init__(self, quantity: Quantity) -> None:
        self.quantity = quantity

    def same(self, other: Any) -> bool:
        return isinstance(other, QuantityValue) and self.quantity.nanos == other.quantity.nanos


def _quantity(text: str) -> QuantityValue:
    try:
        return QuantityValue(Quantity.parse(text))
    except QuantityError as error:
        raise Failed(str(error)) from None


def _holds(parse: Callable[..., Any]) -> Callable[..., bool]:
    def holds(*args: Any) -> bool:
        try:
            parse(*args)
        except Failed:
            return False
        return True

    return holds


def _compared(left: QuantityValue, right: QuantityValue) -> int:
    one, other = left.quantity.nanos, right.quantity.nanos
    return (one > other) - (one < other)


def _units(value: QuantityValue) -> int | None:
    units, rest = divmod(value.quantity.nanos, NANO)
    return None if rest or not INT_MIN <= units <= INT_MAX else units


def _as_integer(value: QuantityValue) -> int:
    if (units := _units(value)) is None:
        raise Failed("cannot convert value to integer")
    return units


def _amount(value: Any) -> Quantity:
    if isinstance(value, int):
        return Quantity.of_units(value, DECIMAL_EXPONENT)
    found: Quantity = value.quantity
    return found


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _quantities() -> None:
    two = "Quantity.(Quantity)"
    _add("quantity", "string_to_quantity", "(string) Quantity", _quantity)
    _add("isQuantity", "is_quantity_string", "(string) bool", _holds(_quantity))
    sign = lambda value: (value.quantity.nanos > 0) - (value.quantity.nanos < 0)  # noqa: E731
    _add("sign", "quantity_sign", "(Quantity) int", sign)
    _add("isGreaterThan", "quantity_is_greater_than", f"{two} bool", lambda one, other: _compared(one, other) > 0)
    _add("isLessThan", "quantity_is_less_than", f"{two} bool", lambda one, other: _compared(one, other) < 0)
    _add("compareTo", "quantity_compare_to", f"{two} int", _compared)
    _add("asApproximateFloat", "quantity_get_float", "Quantity.() double", lambda value: value.quantity.nanos / NANO)
    _add("asInteger", "quantity_get_int", "Quantity.() int", _as_integer)
    _add("isInteger", "quantity_is_integer", "Quantity.() bool", lambda value: _units(value) is not None)
    for word, sum_of in (
        ("add", lambda one, other: QuantityValue(one.quantity + _amount(other))),
        ("sub", lambda one, other: QuantityValue(one.quantity - _amount(other))),
    ):
        _add(word, f"quantity_{word}", f"{two} Quantity", sum_of)
        _add(word, f"quantity_{word}_int", "Quantity.(int) Quantity", sum_of)


# --- semantic versions -----------------------------------------------------------------------------------------------


class Semver(Opaque):
    __slots__ = ("numbers", "release")
    type_name = "kubernetes.Semver"

    def __init__(self, numbers: tuple[int, int, int], release: tuple[tuple[int, int, str], ...]) -> None:
        self.numbers, self.release = numbers, release

    def same(self, other: Any) -> bool:
        return isinstance(other, Semver) and self.compared(other) == 0

    def compared(self, other: Semver) -> int:
        # A version without a pre-release part sorts after all versions that have one.
        mine, theirs = (self.numbers, not self.release, self.release), (other.numbers, not other.release, other.release)
        return (mine > theirs) - (mine < theirs)


def _number(text: str, part: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise Failed(f'Invalid character(s) found in {part} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise Failed(f'{part.capitalize()} number must not contain leading zeroes "{text}"')
    if len(text) > 20:
        raise Failed(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _identifier(text: str) -> tuple[int, int, str]:
    """The sort key of an identifier: numbers before words, numbers numerically, words alphabetically."""
    if not text:
        raise Failed("Prerelease is empty")
    if not _IDENTIFIER.fullmatch(text):
        raise Failed(f'Invalid character(s) found in prerelease "{text}"')
    if not text.isdigit():
        return (1, 0, text)
    if len(text) > 1 and text[0] == "0":
        raise Failed(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
    return (0, int(text[:40]), "")


def _semver(text: str, tolerant: bool = False) -> Semver:
    text = _normal(text) if tolerant else text
    if not text:
        raise Failed("Version string empty")
    if text.count(".") < 2:
        raise Failed("No Major.Minor.Patch elements found")
    major, minor, rest = text.split(".", 2)
    rest, plus, build = rest.partition("+")
    patch, dash, before = rest.partition("-")
    numbers = (_number(major, "major"), _number(minor, "minor"), _number(patch, "patch"))
    release = tuple(_identifier(part) for part in before.split(".")) if dash else ()
    if plus and any(not _IDENTIFIER.fullmatch(part) for part in build.split(".")):
        raise Failed("Build meta data is empty" if "" in build.split(".") else "Invalid character(s) found in build")
    return Semver(numbers, release)


def _normal(text: str) -> str:
    """The normalized text of a version: without a `v` and leading zeros, and with all three numbers."""
    parts = text.removeprefix("v").split(".", 2)
    for at, part in enumerate(parts):
        if len(part) > 1:
            part = part.lstrip("0")
            parts[at] = part if part[:1].isdigit() and part[:1].isascii() else f"0{part}"
    if len(parts) < 3 and any(sign in parts[-1] for sign in "+-"):
        raise Failed("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][:3] if len(parts) < 3 else parts)


def _versions() -> None:
    two = "Semver.(Semver)"
    _add("semver", "string_to_semver", "(string) Semver", _semver)
    _add("semver", "string_bool_to_semver", "(string, bool) Semver", _semver)
    _add("isSemver", "is_semver_string", "(string) bool", _holds(_semver))
    _add("isSemver", "is_semver_string_bool", "(string, bool) bool", _holds(_semver))
    _add("isGreaterThan", "semver_is_greater_than", f"{two} bool", lambda one, other: one.compared(other) > 0)
    _add("isLessThan", "semver_is_less_than", f"{two} bool", lambda one, other: one.compared(other) < 0)
    _add("compareTo", "semver_compare_to", f"{two} int", Semver.compared)
    for at, word in enumerate(("major", "minor", "patch")):
        _add(word, f"semver_{word}", "Semver.() int", _part(at))


def _part(at: int) -> Callable[[Semver], int]:
    return lambda value: value.numbers[at]


# --- formats ---------------------------------------------------------------------------------------------------------


class Format(Opaque):
    __slots__ = ("complaints", "name", "pattern_size")
    type_name = "kubernetes.NamedFormat"

    def __init__(self, name: str, complaints: Callable[[str], Any], pattern_size: int) -> None:
        self.name, self.complaints, self.pattern_size = name, complaints, pattern_size


def _known(name: str, complaint: str) -> Callable[[str], list[str]]:
    return lambda text: [] if FORMATS[name](text) else [complaint]


def _uri(text: str) -> list[str]:
    problem = url_problem(text)
    return [problem] if problem else []


_FORMATS = {
    "dns1123Label": Format("DNS1123Label", names.dns_label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", names.dns_subdomain, 60),
    "dns1035Label": Format("DNS1035Label", names.dns_1035, 30),
    "qualifiedName": Format("QualifiedName", names.qualified_name, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", lambda text: names.dns_label(text, True), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", lambda text: names.dns_subdomain(text, True), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", lambda text: names.dns_1035(text, True), 30),
    "labelValue": Format("LabelValue", names.label_value, 40),
    "uri": Format("URI", _uri, 1103),
    "uuid": Format("uuid", _known("uuid", "does not match the UUID format"), 70),
    "byte": Format("byte", _known("byte", "invalid base64"), 84),
    "date": Format("date", _known("date", "invalid date"), 71),
    "datetime": Format("datetime", _known("datetime", "invalid datetime"), 71),
}


def _validate(form: Format, text: str) -> Maybe:
    found = list(form.complaints(text))
    return Maybe(found) if found else NONE


def _formats() -> None:
    _add("validate", "format-validate", "Format.(string) optional(list(string))", _validate)
    named = lambda name: Maybe(_FORMATS[name]) if name in _FORMATS else NONE  # noqa: E731
    _add("format.named", "format-named", "(string) optional(Format)", named)
    for name, form in _FORMATS.items():
        _add(f"format.{name}", f"format.{name}", "() Format", _constant(form))


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


_quantities()
_versions()
_formats()
_add("jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string", "(string) string", _escape_key)
