"""Types of expressions, and the rules of assignability used by the checker."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Type:
    kind: str
    """`int`, `list`, …; `object` for types with declared fields or only functions, `param` for a free variable."""
    params: tuple[Type, ...] = ()
    name: str = ""
    fields: dict[str, Type] | None = field(default=None, compare=False, hash=False)
    """The fields of a declared object, by the names that expressions use."""

    def __str__(self) -> str:
        if self.kind in ("object", "opaque", "param"):
            shown = self.name
        else:
            shown = _SHOWN.get(self.kind, self.kind)
        if self.params:
            return f"{shown}({', '.join(str(param) for param in self.params)})"
        return shown


_SHOWN = {
    "error": "!error!",
    "optional": "optional_type",
    "timestamp": "timestamp",
    "duration": "duration",
    "null": "null",
}
DYN, ERROR = Type("dyn"), Type("error")
BOOL, INT, UINT, DOUBLE = Type("bool"), Type("int"), Type("uint"), Type("double")
STRING, BYTES, NULL = Type("string"), Type("bytes"), Type("null")
TIMESTAMP, DURATION = Type("timestamp"), Type("duration")
QUANTITY, SEMVER, URL, FORMAT = (
    Type("object", name=f"kubernetes.{name}") for name in ("Quantity", "Semver", "URL", "NamedFormat")
)
IP, CIDR = Type("opaque", name="net.IP"), Type("opaque", name="net.CIDR")
_AUTHORIZER = "kubernetes.authorization."
AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION = (
    Type("object", name=_AUTHORIZER + name)
    for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)
_NAMED = {
    "Quantity": QUANTITY,
    "Semver": SEMVER,
    "URL": URL,
    "Format": FORMAT,
    "IP": IP,
    "CIDR": CIDR,
    "Authorizer": AUTHORIZER,
    "PathCheck": PATH_CHECK,
    "GroupCheck": GROUP_CHECK,
    "ResourceCheck": RESOURCE_CHECK,
    "Decision": DECISION,
}


def list_of(item: Type) -> Type:
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional", (value,))


def type_of(value: Type) -> Type:
    return Type("type", (value,))


@lru_cache(maxsize=512)
def type_from(text: str) -> Type:
    """Parses the notation `list(string)`, `map(K, V)`, `Quantity`; a single capital letter is a free variable."""
    found = re.fullmatch(r"(\w+)(?:\((.*)\))?", text.strip())
    assert found is not None, text
    name, inner = found[1], found[2]
    if inner is not None:
        return Type(name, tuple(type_from(part) for part in split_types(inner)))
    if len(name) == 1 and name.isupper():
        return Type("param", name=name)
    return _NAMED.get(name) or Type(name)


def split_types(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


Bindings = dict[str, Type]


def resolved(kind: Type, bound: Bindings, to_dyn: bool = False) -> Type:
    """Substitutes known free variables; unknown ones remain free, or become dynamic."""
    while kind.kind == "param" and kind.name in bound:
        kind = bound[kind.name]
    if kind.kind == "param":
        return DYN if to_dyn else kind
    if not kind.params:
        return kind
    params = tuple(resolved(param, bound, to_dyn) for param in kind.params)
    return kind if params == kind.params else Type(kind.kind, params, kind.name, kind.fields)


def _occurs(name: str, kind: Type, bound: Bindings) -> bool:
    kind = resolved(kind, bound)
    if kind.kind == "param":
        return kind.name == name
    return any(_occurs(name, param, bound) for param in kind.params)


def assignable(pairs: Iterable[tuple[Type, Type]], bound: Bindings) -> bool:
    """Whether the types are pairwise assignable under the current substitutions. New substitutions are kept if they
    are.
    """
    added: list[str] = []
    for one, other in pairs:
        if not _agree(one, other, bound, added):
            for name in added:
                del bound[name]
            return False
    return True


def _agree(one: Type, other: Type, bound: Bindings, added: list[str]) -> bool:
    one, other = resolved(one, bound), resolved(other, bound)
    if one.kind == "param" and other.kind == "param" and one.name == other.name:
        return True
    for free, fixed in ((other, one), (one, other)):
        if free.kind == "param":
            if _occurs(free.name, fixed, bound):
                return False
            bound[free.name] = fixed
            added.append(free.name)
            return True
    if one.kind in ("dyn", "error") or other.kind in ("dyn", "error"):
        return True
    if "null" in (one.kind, other.kind):
        return one.kind in _NULLABLE and other.kind in _NULLABLE
    if one.kind != other.kind or one.name != other.name or len(one.params) != len(other.params):
        return False
    if one.kind == "type":
        return True
    return all(_agree(left, right, bound, added) for left, right in zip(one.params, other.params, strict=True))


_NULLABLE = ("null", "object", "opaque", "timestamp", "duration")
"""Types that accept null."""


def most_general(one: Type, other: Type) -> Type:
    """The more general of two compatible types."""
    if one.kind in ("dyn", "param") or other.kind in ("dyn", "param"):
        return one if one.kind in ("dyn", "param") else other
    params = tuple(most_general(a, b) for a, b in zip(one.params, other.params, strict=False))
    return one if params == one.params else Type(one.kind, params, one.name, one.fields)
