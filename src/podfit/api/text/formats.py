"""Checks text from clients: decimal numbers of any length, and the string formats that apiextensions checks (unknown
formats are ignored)."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from urllib.parse import urlsplit

from podfit.api.text.times import BadTime, time_text


def _no_error(check: Callable[[str], object], *errors: type[Exception]) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        try:
            check(text)
        except errors:
            return False
        return True

    return holds


_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_DURATION = re.compile(
    r"[+-]?(?:0|(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h|d|w)(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h|d|w))*)"
)
_HOSTNAME = re.compile(
    r"(?=.{1,255}$)(?:[^\W_](?:-?[^\W_]{0,62})?|(?:[^\W_](?:(?:[^\W_]|-){0,61}[^\W_])?\.)+[^\W\d_]{2,63})"
)
_SHORT_NAME = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LONG_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_MAC = re.compile(r"(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}")

_is_network = _no_error(lambda text: ipaddress.ip_network(text, strict=False), ValueError)
_is_base64 = _no_error(lambda text: base64.b64decode(text, validate=True), binascii.Error, ValueError)

FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _no_error(time_text, BadTime),
    "datetime": _no_error(time_text, BadTime),
    "date": _no_error(date.fromisoformat, ValueError),
    "byte": lambda text: bool(text) and _is_base64(text),
    "uuid": lambda text: bool(_UUID.fullmatch(text)),
    "duration": lambda text: bool(_DURATION.fullmatch(text)),
    "ipv4": _no_error(ipaddress.IPv4Address, ValueError),
    "ipv6": _no_error(ipaddress.IPv6Address, ValueError),
    "cidr": lambda text: "/" in text and _is_network(text),
    "hostname": lambda text: bool(_HOSTNAME.fullmatch(text)),
    "email": lambda text: bool(_EMAIL.fullmatch(text)),
    "mac": lambda text: bool(_MAC.fullmatch(text)),
    "password": lambda text: True,
    "k8s-short-name": lambda text: bool(_SHORT_NAME.fullmatch(text)),
    "k8s-long-name": lambda text: bool(_LONG_NAME.fullmatch(text)),
    "uri": lambda text: bool(urlsplit(text).scheme) or text.startswith("/"),
}


def fits(text: str, most: int) -> bool:
    """Whether the text consists of ASCII digits alone, and is a number of at most `most`. Python refuses to
    convert thousands of digits."""
    if most < 0 or not text.isascii() or not text.isdecimal():
        return False
    digits = text.lstrip("0")
    return len(digits) <= len(str(most)) and int(digits or "0") <= most
