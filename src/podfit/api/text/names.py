"""The grammars of Kubernetes names: each function returns errors, none if the text is valid.

Results are cached: the same names and keys occur in every request.
"""

from __future__ import annotations

import re

from podfit.api.text.labels import key_problems, value_problems
from podfit.api.text.remember import remembered

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_label = re.compile(_LABEL)
_label_1035 = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_subdomain = re.compile(_SUBDOMAIN)
_port_charset = re.compile("[-a-z0-9]+")
_port_letter = re.compile("[a-z]")
_UNDERSCORE_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORED = rf"{_UNDERSCORE_LABEL}(\.{_UNDERSCORE_LABEL})*"
_underscored = re.compile(_UNDERSCORED)
_wildcard = re.compile(rf"\*\.{_SUBDOMAIN}")
_env_name_relaxed = re.compile("[ -<>-~]+")
_config_key = re.compile("[-._a-zA-Z0-9]+")
_http_header = re.compile("[-A-Za-z0-9]+")


def max_length(longest: int) -> str:
    return f"must be no more than {longest} characters"


def regex_complaint(text: str, pattern: str, *examples: str) -> str:
    if not examples:
        return f"{text} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


_DNS_LABEL_TEXT = regex_complaint(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_DNS_SUBDOMAIN_TEXT = regex_complaint(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_UNDERSCORE_TEXT = regex_complaint(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    "start and end with an alphanumeric character",
    _UNDERSCORED,
    "example.com",
)
_DNS_1035_TEXT = regex_complaint(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    "my-name",
    "abc-123",
)


_WILDCARD_TEXT = regex_complaint(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    rf"\*\.{_SUBDOMAIN}",
    "*.example.com",
)


def _without_dash(name: str, prefix: bool) -> str:
    """A generateName with a letter in place of its final dash: the generated suffix is alphanumeric."""
    return name[:-1] + "a" if prefix and len(name) > 1 and name.endswith("-") else name


@remembered(65536)
def _complaints_label(name: str) -> tuple[str, ...]:
    found = (max_length(63),) if len(name.encode()) > 63 else ()
    if _label.fullmatch(name):
        return found
    return (*found, "must not contain dots" if _subdomain.fullmatch(name) else _DNS_LABEL_TEXT)


def _about_subdomain(name: str) -> tuple[str, ...]:
    found = (max_length(253),) if len(name) > 253 or len(name.encode()) > 253 else ()
    return found if _subdomain.fullmatch(name) else (*found, _DNS_SUBDOMAIN_TEXT)


_complaints_subdomain = remembered(65536)(_about_subdomain)


@remembered(65536)
def _complaints_1035(name: str) -> tuple[str, ...]:
    found = (max_length(63),) if len(name.encode()) > 63 else ()
    return found if _label_1035.fullmatch(name) else (*found, _DNS_1035_TEXT)


def dns_label(name: str, prefix: bool = False) -> list[str]:
    return list(_complaints_label(_without_dash(name, prefix)))


def dns_subdomain(name: str, prefix: bool = False) -> list[str]:
    return list(_complaints_subdomain(_without_dash(name, prefix)))


def new_subdomain(name: str, prefix: bool = False) -> list[str]:
    """`dns_subdomain` for names that rarely recur: every Event has one of its own. They are not cached."""
    return list(_about_subdomain(_without_dash(name, prefix)))


@remembered(4096)
def dns_subdomain_with_underscore(name: str) -> tuple[str, ...]:
    """Errors of a resolver's search domain, whose labels may contain and start with underscores."""
    found = (max_length(253),) if len(name.encode()) > 253 else ()
    return found if _underscored.fullmatch(name) else (*found, _UNDERSCORE_TEXT)


def dns_1035(name: str, prefix: bool = False) -> list[str]:
    return list(_complaints_1035(_without_dash(name, prefix)))


def path_segment(name: str, prefix: bool = False) -> list[str]:
    """Characters allowed in a URL path; the only rule for kinds with free names (RBAC)."""
    if not prefix and name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in name]


@remembered(65536)
def qualified_name(name: str) -> tuple[str, ...]:
    """`name` or `prefix/name`: keys of labels, annotations, resources, taints. Kubernetes calls all of them label keys,
    and counts their length in bytes."""
    return tuple(key_problems(name))


@remembered(65536)
def label_value(value: str) -> tuple[str, ...]:
    return tuple(value_problems(value))


@remembered(4096)
def port_name(name: str) -> tuple[str, ...]:
    """Errors of a port name (IANA_SVC_NAME)."""
    found: list[str] = []
    if len(name) > 15:
        found.append("must be no more than 15 characters")
    if not _port_charset.fullmatch(name):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _port_letter.search(name):
        found.append("must contain at least one letter (a-z)")
    if "--" in name:
        found.append("must not contain consecutive hyphens")
    if name and (name[0] == "-" or name[-1] == "-"):
        found.append("must not begin or end with a hyphen")
    return tuple(found)


@remembered(4096)
def env_var_name(name: str) -> tuple[str, ...]:
    if _env_name_relaxed.fullmatch(name):
        return ()
    return ("a valid environment variable name must consist only of printable ASCII characters other than '='",)


def _dots(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"must not be '{name}'"]
    return ["must not start with '..'"] if name.startswith("..") else []


@remembered(16384)
def config_map_key(key: str) -> tuple[str, ...]:
    found: list[str] = []
    if len(key) > 253:
        found.append(max_length(253))
    if not _config_key.fullmatch(key):
        found.append(
            regex_complaint(
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
                "[-._a-zA-Z0-9]+",
                "key.name",
                "KEY_NAME",
                "key-name",
            )
        )
    found.extend(_dots(key))
    return tuple(found)


@remembered(4096)
def http_header_name(name: str) -> tuple[str, ...]:
    if _http_header.fullmatch(name):
        return ()
    return (
        regex_complaint(
            "a valid HTTP header must consist of alphanumeric characters or '-'", "[-A-Za-z0-9]+", "X-Header-Name"
        ),
    )


@remembered(4096)
def wildcard_subdomain(name: str) -> tuple[str, ...]:
    found = (max_length(253),) if len(name.encode()) > 253 else ()
    return found if _wildcard.fullmatch(name) else (*found, _WILDCARD_TEXT)


def in_range(value: int, low: int, high: int) -> list[str]:
    return [] if low <= value <= high else [f"must be between {low} and {high}, inclusive"]


def port_number(port: int) -> list[str]:
    return in_range(port, 1, 65535)
