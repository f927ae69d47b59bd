"""The grammar of labels: each function returns the errors of a key or a value, none if it is valid."""

from __future__ import annotations

import re

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_NAME_WRONG = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DOMAIN_WRONG = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_VALUE_WRONG = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def key_problems(key: str) -> list[str]:
    """Errors of a label's key."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return [
            f"a valid label key {_NAME_WRONG} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        if len(prefix.encode()) > 253:
            problems.append("prefix part must be no more than 253 bytes")
        if not _DOMAIN.fullmatch(prefix):
            problems.append(f"prefix part {_DOMAIN_WRONG}")
    if not name:
        problems.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(name):
        problems.append(f"name part {_NAME_WRONG}")
    return problems


def value_problems(value: str) -> list[str]:
    """Errors of a label's value."""
    problems = ["must be no more than 63 bytes"] if len(value.encode()) > 63 else []
    if not _VALUE.fullmatch(value):
        problems.append(_VALUE_WRONG)
    return problems
