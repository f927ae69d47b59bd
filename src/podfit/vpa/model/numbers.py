"""Formats numbers in messages as upstream does."""

from __future__ import annotations

from decimal import Decimal


def go_float(number: float) -> str:
    """The shortest decimal that identifies the number, with an exponent from a million on and below 0.0001."""
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    if not isinstance(exponent, int):
        return repr(number)
    text = "".join(map(str, digits))
    power = len(text) - 1 + exponent
    if not number:
        return "-0" if sign else "0"
    if power < -4 or power >= 6:
        shown = f"{text[0]}{'.' + text[1:] if text[1:] else ''}e{'-' if power < 0 else '+'}{abs(power):02d}"
    else:
        shown = f"{Decimal(repr(abs(number))):f}".removesuffix(".0")
    return f"-{shown}" if sign else shown
