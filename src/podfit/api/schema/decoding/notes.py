"""Errors and warnings found while decoding an object: Go's messages, and their paths.

Unknown and duplicate fields are collected in document order. A value of the wrong type is recorded and decoding
continues (Go reports the first such); a value with a parser of its own that fails ends it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from podfit.api.schema.decoding.scalars import Unreadable, WrongType, json_word
from podfit.api.schema.golang.embedded import spelled
from podfit.api.schema.types import Scalar, Type
from podfit.api.schema.zeros import ZERO, zero_of
from podfit.api.text.gojson import Literal, Pairs

JSON, UNSTRUCTURED = "json", "unstructured"
"""Two styles of messages: of Go's JSON decoder, and of the converter that decodes a patched object."""
MAX_STRICT = 100


class Notes:
    """Collects the findings of a reader, which also reports its position (`enter`, `leave`)."""

    def __init__(self, dialect: str = JSON) -> None:
        self.strict: list[str] = []
        self.wrong: str | None = None
        self._unstructured = dialect == UNSTRUCTURED
        self._path: list[str] = []
        self._fields: list[tuple[str, str]] = []
        """The enclosing fields, each with the name of its struct."""

    def enter(self, place: str | int) -> None:
        """Enters a value at a key of a map, or at the index of an element of a list."""
        self._path.append(f"[{place}]" if isinstance(place, int) else place if not self._path else "." + place)

    def leave(self) -> None:
        self._path.pop()

    def enter_field(self, key: str, struct: str) -> None:
        self._path.append(key if not self._path else "." + key)
        self._fields.append((struct, key))

    def leave_field(self) -> None:
        self._path.pop()
        self._fields.pop()

    def duplicates(self, value: dict[str, Any]) -> None:
        for key in getattr(value, "twice", ()):
            self._note("duplicate", key)

    def items_of(self, value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """The fields of an object. Duplicates are recorded where they are repeated."""
        for at, pair in enumerate(value.items()):
            self._repeated(value, at)
            yield pair
        self._repeated(value, len(value))

    def _repeated(self, value: dict[str, Any], at: int) -> None:
        """Records the duplicates that follow this many keys of the object."""
        if isinstance(value, Pairs):
            for key, after in zip(value.twice, value.after, strict=True):
                if after == at:
                    self._note("duplicate", key)

    def unknown(self, key: str) -> None:
        self._note("unknown", key)

    def _note(self, what: str, key: str) -> None:
        if len(self.strict) < MAX_STRICT:
            path = "".join(self._path)
            note = f'{what} field "{path}.{key}"' if path else f'{what} field "{key}"'
            if note not in self.strict:
                self.strict.append(note)

    def scalar(self, value: Any, kind: Scalar, read: Callable[[Any], Any]) -> Any:
        if self._unstructured:
            value = _converted(value, kind)
        try:
            return read(value)
        except Unreadable as error:
            if self._unstructured and kind.form == "bytes":
                raise Unreadable(f"error decoding from json: {error}") from None
            raise
        except WrongType as wrong:
            if wrong.go and self._unstructured:
                raise Unreadable(f"json: cannot unmarshal {wrong.word} into Go value of type {wrong.go}") from None
            return self.mismatch(value, kind, "", wrong)

    def mismatch(self, value: Any, kind: Type, shape: str, wrong: WrongType | None = None) -> Any:
        """Records a value of the wrong type; returns the zero value, with which decoding continues."""
        if self._unstructured:
            raise Unreadable(_restoring(value, kind, shape))
        if self.wrong is None:
            word = wrong.word if wrong is not None else json_word(value)
            where = f"Go value of type {(wrong and wrong.go) or kind.go}"
            if self._fields:
                fields = ".".join(spelled(struct, key) for struct, key in self._fields)
                where = f"Go struct field {self._fields[-1][0]}.{fields}{where.removeprefix('Go value')}"
            self.wrong = f"json: cannot unmarshal {word} into {where}"
        return ZERO[kind.form] if isinstance(kind, Scalar) else zero_of(kind)


def plain(value: Any) -> Any:
    """A free-form value without the artifacts of exact parsing."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return float(value) if isinstance(value, Literal) else value


def _converted(value: Any, kind: Scalar) -> Any:
    """A number as Go converts it: a float with an integral value becomes an integer; a 32-bit integer wraps."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind.form == "int32" and type(value) is int:
        return (value + (1 << 31)) % (1 << 32) - (1 << 31)
    return value


def go_kind(value: Any) -> str:
    """The Go kind of a value in an unstructured object."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    return "slice" if isinstance(value, list) else "map"


def _restoring(value: Any, kind: Type, shape: str) -> str:
    seen = go_kind(value)
    if shape == "struct":
        return f"cannot restore struct from: {seen}"
    if shape:
        return f"cannot restore {shape} from {seen}"
    wanted = _GO_KINDS.get(kind.form, "string") if isinstance(kind, Scalar) else kind.go
    if wanted in _CONVERTIBLE.get(seen, ()):
        return f"cannot convert {seen} to {kind.go}"
    return f"unrecognized type: {wanted}"


_GO_KINDS = {"bool": "bool", "int32": "int32", "int64": "int64", "float64": "float64"}
_CONVERTIBLE = {
    "int64": ("int32", "int64", "float64", "string"),
    "float64": ("int32", "int64", "float64"),
}
"""Types that Go could convert in principle, although its JSON decoder does not."""
