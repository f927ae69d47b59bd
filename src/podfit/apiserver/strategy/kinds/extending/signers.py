"""Validates names of signers: a domain and a path, as in `example.com/name`."""

from __future__ import annotations

from collections.abc import Callable

from podfit.api.status import go_quote, invalid, required, too_long
from podfit.api.text import names
from podfit.apiserver.strategy.base import Errors

_LONGEST_DOMAIN = 253
_LONGEST = _LONGEST_DOMAIN + 1 + 253 + 1 + 63


def signer_name(name: str, path: str, errors: Errors) -> None:
    if not name:
        errors.append(required(path))
        return
    domain, _, rest = name.partition("/")
    if name.count("/") != 1:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        errors.append(invalid(path, name, detail))
        return
    if len(domain) > _LONGEST_DOMAIN:
        errors.append(too_long(path, _LONGEST_DOMAIN))
    _labels(domain, names.dns_label, path, errors)
    if "." not in domain:
        errors.append(invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    _labels(rest, names.dns_subdomain, path, errors)
    if len(name) > _LONGEST:
        errors.append(too_long(path, _LONGEST))


def _labels(text: str, check: Callable[[str], list[str]], path: str, errors: Errors) -> None:
    """Reports the first invalid label alone, because the others would be reported in the same words."""
    for label in text.split("."):
        if complaints := check(label):
            errors.extend(invalid(path, text, f"validating label {go_quote(label)}: {each}") for each in complaints)
            return
