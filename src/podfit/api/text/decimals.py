"""Decimal numbers in text that a client sends, of any length. Python refuses to convert thousands of digits."""

from __future__ import annotations


def fits(text: str, most: int) -> bool:
    """Whether the text consists of ASCII digits alone, and is a number of at most `most`."""
    if most < 0 or not text.isascii() or not text.isdecimal():
        return False
    digits = text.lstrip("0")
    return len(digits) <= len(str(most)) and int(digits or "0") <= most
