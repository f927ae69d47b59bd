"""The string formats that apiextensions checks; formats it does not know are not checked."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from urllib.parse import urlsplit

from podfit.api.schema.scalars import Unreadable, time_text


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
_HOSTNAME = re.compile(r"(?=.{1,253}$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,62})(?:\.[a-zA-Z0-9-]{1,63})*\.?")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_MAC = re.compile(r"(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}")

FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _no_error(time_text, Unreadable),
    "datetime": _no_error(time_text, Unreadable),
    "date": _no_error(date.fromisoformat, ValueError),
    "byte": _no_error(lambda text: base64.b64decode(text, validate=True), binascii.Error, ValueError),
    "uuid": lambda text: bool(_UUID.fullmatch(text)),
    "duration": lambda text: bool(_DURATION.fullmatch(text)),
    "ipv4": _no_error(ipaddress.IPv4Address, ValueError),
    "ipv6": _no_error(ipaddress.IPv6Address, ValueError),
    "cidr": _no_error(lambda text: ipaddress.ip_network(text, strict=False), ValueError),
    "hostname": lambda text: bool(_HOSTNAME.fullmatch(text)),
    "email": lambda text: bool(_EMAIL.fullmatch(text)),
    "mac": lambda text: bool(_MAC.fullmatch(text)),
    "uri": lambda text: bool(urlsplit(text).scheme) or text.startswith("/"),
}
