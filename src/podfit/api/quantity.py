"""Resource quantities: exact arithmetic and Kubernetes' canonical form.

A quantity is an integer number of nano units (Kubernetes rounds up anything finer) plus the format in which it was
written, which determines how results derived from it are printed. Used everywhere; depends on nothing.
"""

from __future__ import annotations

from functools import lru_cache, total_ordering

from podfit.api.text.remember import remembered

DECIMAL_SI = "DecimalSI"
BINARY_SI = "BinarySI"
DECIMAL_EXPONENT = "DecimalExponent"

NANO = 10**9
_MAX = (2**63 - 1) * NANO
_LONGEST = 10_000
"""The maximum length of a quantity: more digits than needed, and few enough to calculate with."""
_COMMON = 10**64
"""The text of amounts below this is cached."""
_AT_ONCE = 4000
_LARGE = 10**_AT_ONCE
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_OF = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_OF = {exponent: suffix for suffix, exponent in _BINARY.items()}

FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMERIC_WRONG = "unable to parse numeric part of quantity"
SUFFIX_WRONG = "unable to parse quantity's suffix"


class QuantityError(ValueError):
    """The quantity is invalid; the message is Kubernetes'."""


@total_ordering
class Quantity:
    __slots__ = ("format", "nanos", "written")

    def __init__(self, nanos: int, format: str = DECIMAL_SI, written: str | None = None) -> None:
        self.nanos = nanos
        self.format = format
        self.written = written

    @staticmethod
    def parse(text: str | int | float) -> Quantity:
        """Parses a quantity in JSON: a string, or a bare number."""
        written = text if isinstance(text, str) else _number_text(text)
        return _parse(written)

    @staticmethod
    def of_milli(milli: int, format: str = DECIMAL_SI) -> Quantity:
        return Quantity(milli * 10**6, format)

    @staticmethod
    def of_units(units: int, format: str = DECIMAL_SI) -> Quantity:
        return Quantity(units * NANO, format)

    @property
    def value(self) -> int:
        """The amount in whole units, rounded away from zero."""
        return -(-self.nanos // NANO) if self.nanos >= 0 else self.nanos // NANO

    @property
    def milli(self) -> int:
        """The amount in thousandths, rounded away from zero."""
        return -(-self.nanos // 10**6) if self.nanos >= 0 else self.nanos // 10**6

    def rounded_to_milli(self) -> Quantity:
        """The normalization that the API server applies to every resource list it decodes."""
        return self if self.nanos % 10**6 == 0 else Quantity(self.milli * 10**6, self.format)

    def __add__(self, other: Quantity) -> Quantity:
        # A zero sum takes the other's format, as in Go: the first non-zero term determines how a total is printed.
        return Quantity(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __str__(self) -> str:
        return _canonical(self.nanos, self.format)

    def as_written(self) -> str:
        """The text that Go prints for a value it parsed and has not changed since: "+1", "00012" and "1E3" are
        preserved.
        """
        return self.written or _canonical(self.nanos, self.format)


ZERO = Quantity(0)


def canonical(text: str | int | float) -> str:
    """The canonical form of a quantity in JSON."""
    return str(Quantity.parse(text))


def milli_of(text: str | int | float) -> int:
    return Quantity.parse(text).milli


def units_of(text: str | int | float) -> int:
    return Quantity.parse(text).value


def _number_text(number: int | float) -> str:
    if isinstance(number, bool):
        raise QuantityError(FORMAT_WRONG)
    return repr(number)


@remembered(16384)
def _parse(text: str) -> Quantity:
    if not text:
        raise QuantityError(FORMAT_WRONG)
    if len(text) > _LONGEST:
        raise QuantityError(NUMERIC_WRONG)
    if text == "0":
        return Quantity(0)
    positive, number, whole, fraction, suffix = _split(text)
    base, exponent, format = _interpret(suffix)
    fast = _fast_path(base, exponent, whole, fraction)
    if not fast and not _is_number(number):
        raise QuantityError(NUMERIC_WRONG)
    digits = _int_of(whole + fraction)
    if base == 10:
        shift = exponent - len(fraction) + 9
        nanos = digits * 10**shift if shift >= 0 else -(-digits // 10**-shift)
    else:
        nanos = -(-(digits * 2**exponent * NANO) // 10 ** len(fraction))
    if format == BINARY_SI and positive:
        # Only binary amounts are capped: decimal ones may exceed 64 bits.
        nanos = min(nanos, _MAX)
        if 0 < nanos < NANO:
            format = DECIMAL_SI
    # Go keeps the text of a number whose digits and exponent are already canonical.
    kept = fast and nanos and (whole + fraction, exponent - len(fraction)) == _parts(nanos, format)
    written = text if kept else None
    return Quantity(nanos if positive else -nanos, format, written)


def _int_of(digits: str) -> int:
    """Converts a long number in parts: Python refuses to convert it at once, because that takes too long."""
    if len(digits) <= _AT_ONCE:
        return int(digits)
    half = len(digits) // 2
    shift: int = 10**half
    return _int_of(digits[:-half]) * shift + _int_of(digits[-half:])


def _text_of(number: int) -> str:
    if number < _LARGE:
        return str(number)
    high, low = divmod(number, _LARGE)
    return _text_of(high) + str(low).zfill(_AT_ONCE)


def _split(text: str) -> tuple[bool, str, str, str, str]:
    """Splits a quantity into sign, the number as written, digits before and after the point, and suffix."""
    positive = not text.startswith("-")
    end = len(text)
    at = 1 if text[0] in "+-" else 0
    while at < end and text[at] == "0":
        at += 1
    if at >= end:
        return positive, "0", "0", "", ""
    start = at
    at = _past_digits(text, at)
    whole = text[start:at]
    if at >= end:
        return positive, text, whole, "", ""
    whole = whole or "0"
    fraction = ""
    if text[at] == ".":
        start = at + 1
        at = _past_digits(text, start)
        fraction = text[start:at]
        if at >= end:
            return positive, text, whole, fraction, ""
    number, start = text[:at], at
    while at < end and text[at] in "eEinumkKMGTP":
        at += 1
    if at < end and text[at] in "+-":
        at += 1
    if _past_digits(text, at) < end:
        raise QuantityError(FORMAT_WRONG)
    return positive, number, whole, fraction, text[start:]


def _past_digits(text: str, at: int) -> int:
    while at < len(text) and "0" <= text[at] <= "9":
        at += 1
    return at


def _interpret(suffix: str) -> tuple[int, int, str]:
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], DECIMAL_SI
    if suffix in _BINARY:
        return 2, _BINARY[suffix], BINARY_SI
    if len(suffix) > 1 and suffix[0] in "eE":
        try:
            return 10, _bounded(int(suffix[1:])), DECIMAL_EXPONENT
        except ValueError:
            pass
    raise QuantityError(SUFFIX_WRONG)


def _bounded(exponent: int) -> int:
    """The exponent that counts: Kubernetes keeps the low 32 bits. A larger one than any parsed number is cut off."""
    if not -(2**63) <= exponent < 2**63:
        raise ValueError
    exponent = (exponent + 2**31) % 2**32 - 2**31
    return max(-_LONGEST, min(_LONGEST, exponent))


def _fast_path(base: int, exponent: int, whole: str, fraction: str) -> bool:
    """Parses a short number like Go, from its digits alone: "m" and ".", which have no digits, count as zero."""
    if base == 10:
        return 18 - len(whole) - len(fraction) >= 0 and exponent - len(fraction) >= -9
    return not fraction and 15 - len(whole) - exponent * 3 // 10 - 1 >= 0


def _is_number(number: str) -> bool:
    return any("0" <= letter <= "9" for letter in number)


@lru_cache(maxsize=16384)
def _remembered_text(nanos: int, format: str) -> str:
    return _print(nanos, format)


def _canonical(nanos: int, format: str) -> str:
    return _remembered_text(nanos, format) if -_COMMON < nanos < _COMMON else _print(nanos, format)


def _print(nanos: int, format: str) -> str:
    if nanos == 0:
        return "0"
    sign, absolute = ("-", -nanos) if nanos < 0 else ("", nanos)
    if format == BINARY_SI and not _prints_binary(absolute):
        format = DECIMAL_SI
    amount, exponent = _parts(absolute, format)
    if format == BINARY_SI:
        return f"{sign}{amount}{_BINARY_OF.get(exponent, '')}"
    if format == DECIMAL_SI:
        return f"{sign}{amount}{_DECIMAL_OF[exponent]}"
    return f"{sign}{amount}" + (f"e{exponent}" if exponent else "")


def _prints_binary(absolute: int) -> bool:
    return absolute >= 1024 * NANO and absolute % NANO == 0


def _parts(absolute: int, format: str) -> tuple[str, int]:
    """Digits and exponent (of ten, or of two) of the canonical form of a positive amount."""
    if format == BINARY_SI and _prints_binary(absolute):
        amount, exponent = absolute // NANO, 0
        while exponent < 60 and amount % 1024 == 0:
            amount //= 1024
            exponent += 10
        return str(amount), exponent
    written = _text_of(absolute)
    digits = written.rstrip("0")
    exponent = len(written) - len(digits) - 9
    kept = exponent - exponent % 3 if format == DECIMAL_EXPONENT else min(exponent - exponent % 3, 18)
    return digits + "0" * (exponent - kept), kept
