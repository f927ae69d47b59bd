"""The thorough way through typed decoding: the same result as `fast`, plus Go's words for everything odd.

Unknown and duplicate fields are collected in the order of the document. A value of the wrong type is noted and the
reading goes on (Go reports the first such); a value that parses itself and refuses ends it at once.
"""

from __future__ import annotations

from typing import Any

from podfit.api.schema.decoding.fast import dropped_when_empty, printed_when_unset, unset, zero_of
from podfit.api.schema.decoding.scalars import READERS, ZERO, Unreadable, WrongType, json_word
from podfit.api.schema.golang.gojson import Literal, Pairs
from podfit.api.schema.types import Field, ListOf, MapOf, Scalar, Struct, Type

JSON, UNSTRUCTURED = "json", "unstructured"
"""Two dialects of complaint: Go's JSON decoder, and the converter that reads a patched object."""
MAX_STRICT = 100


class Walker:
    def __init__(self, dialect: str = JSON) -> None:
        self.strict: list[str] = []
        self.wrong: str | None = None
        self._unstructured = dialect == UNSTRUCTURED
        self._path: list[str] = []
        self._names: list[str] = []
        self._owner = ""

    def read(self, value: Any, kind: Type) -> Any:
        """The re-encoded value; a null is the zero value."""
        if value is None:
            return zero_of(kind)
        if isinstance(kind, Struct):
            return self._struct(value, kind)
        if isinstance(kind, ListOf):
            return self._list(value, kind)
        if isinstance(kind, MapOf):
            return self._map(value, kind)
        return self._scalar(value, kind)

    def _struct(self, value: Any, kind: Struct) -> Any:
        if not isinstance(value, dict):
            return self._mismatch(value, kind, "struct")
        out: dict[str, Any] = {}
        for at, (key, item) in enumerate(value.items()):
            self._note_duplicates(value, at)
            row = kind.fields.get(key)
            if row is None:
                self._note("unknown", key)
                continue
            self._field(out, key, item, row, kind.name)
        self._note_duplicates(value, len(value))
        for name, row in kind.fields.items():
            if name not in out and printed_when_unset(row):
                out[name] = unset(row)
        return out

    def _field(self, out: dict[str, Any], key: str, item: Any, row: Field, owner: str) -> None:
        if item is None:
            return
        before, self._owner = self._owner, owner
        self._path.append(key if not self._path else "." + key)
        self._names.append(key)
        read = self.read(item, row.type)
        self._names.pop()
        self._path.pop()
        self._owner = before
        if read or not (dropped_when_empty(row) or (row.omit_zero and read is None)):
            out[key] = read

    def _list(self, value: Any, kind: ListOf) -> Any:
        if not isinstance(value, list):
            return self._mismatch(value, kind, "slice")
        out = []
        for index, item in enumerate(value):
            self._path.append(f"[{index}]")
            out.append(self.read(item, kind.item))
            self._path.pop()
        return out

    def _map(self, value: Any, kind: MapOf) -> Any:
        if not isinstance(value, dict):
            return self._mismatch(value, kind, "map")
        out = {}
        self._note_all_duplicates(value)
        of_bytes = isinstance(kind.value, Scalar) and kind.value.form == "bytes"
        for key, item in value.items():
            self._path.append(key if not self._path else "." + key)
            # What is stored knows empty bytes in a map, but none that are nothing.
            out[key] = "" if item is None and of_bytes else self.read(item, kind.value)
            self._path.pop()
        return out

    def _scalar(self, value: Any, kind: Scalar) -> Any:
        if kind.form == "Raw":
            return plain(value)
        try:
            return READERS[kind.form](_integral(value) if self._unstructured else value)
        except WrongType as wrong:
            if wrong.go and self._unstructured:
                raise Unreadable(f"json: cannot unmarshal {wrong.word} into Go value of type {wrong.go}") from None
            return self._mismatch(value, kind, "", wrong)

    def _mismatch(self, value: Any, kind: Type, shape: str, wrong: WrongType | None = None) -> Any:
        if self._unstructured:
            raise Unreadable(_restoring(value, kind, shape))
        if self.wrong is None:
            word = wrong.word if wrong is not None else json_word(value)
            where = f"Go value of type {(wrong and wrong.go) or kind.go}"
            if self._names:
                where = f"Go struct field {self._owner}.{'.'.join(self._names)}{where.removeprefix('Go value')}"
            self.wrong = f"json: cannot unmarshal {word} into {where}"
        return ZERO[kind.form] if isinstance(kind, Scalar) else zero_of(kind)

    def _note_duplicates(self, value: dict[str, Any], at: int) -> None:
        """Those that were repeated after so many keys of the object."""
        if isinstance(value, Pairs):
            for key, after in zip(value.twice, value.after, strict=True):
                if after == at:
                    self._note("duplicate", key)

    def _note_all_duplicates(self, value: dict[str, Any]) -> None:
        for key in getattr(value, "twice", ()):
            self._note("duplicate", key)

    def _note(self, what: str, key: str) -> None:
        if len(self.strict) < MAX_STRICT:
            path = "".join(self._path)
            note = f'{what} field "{path}.{key}"' if path else f'{what} field "{key}"'
            if note not in self.strict:
                self.strict.append(note)


def plain(value: Any) -> Any:
    """A free-form value without the traces of exact parsing."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return float(value) if isinstance(value, Literal) else value


def _integral(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


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
"""What Go could convert in principle, although JSON does not."""
