"""Selects the objects of a list or a watch by labels and fields. Selectors are parsed once, and evaluated for every
record or change.

A list is evaluated on records, of which only the few fields that selectors use are decoded; a change is evaluated on
the objects before and after it, which are already decoded.
"""

from __future__ import annotations

from collections.abc import Iterator

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.selectors import FieldSelector, FieldTerm, LabelSelector, SelectorError
from podfit.api.status import bad_request, go_quote
from podfit.apiserver.representation.views import SELECTABLE, Views
from podfit.apiserver.storage.events import WatchEvent
from podfit.apiserver.storage.objects import Objects
from podfit.store.backend import Record

_STEP = 128
_INDEXED = ("metadata.name", "spec.nodeName")
_ALWAYS = frozenset(("metadata.name", "metadata.namespace"))
_UNSUPPORTED = {
    "Job": 'field label "{}" not supported for Job',
    "ResourceSlice": "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {}",
}
"""The error for an unknown field, for kinds whose wording differs from the usual one."""


class Chosen:
    def __init__(
        self, views: Views, labels: LabelSelector, fields: FieldSelector, text: tuple[str, str], converted: bool
    ) -> None:
        """`text`: the selectors as written. `converted`: the selection can be evaluated only on objects in the version
        of the client."""
        self.converted = converted
        self._views, self._labels, self._fields = views, labels, fields
        self.key = f"{id(views)} {text!r}"
        self.name = fields.exact("metadata.name")
        self._all_labels = labels.everything
        terms: dict[str, list[tuple[str, bool]]] = {}
        for term in fields.terms:
            terms.setdefault(term.field, []).append((term.value, term.equal))
        self._terms = [(views.reader(name), of_name) for name, of_name in terms.items()]

    def takes(self, record: Record) -> bool:
        view = self._views.of(record)
        return self._labels.matches(view.labels) and self._fields.matches(view.fields)

    def between(self, event: WatchEvent) -> tuple[bool, bool]:
        """The results of `takes` for the records before and after a change; False if there is no record."""
        was, stays = event.change.previous is not None, event.change.record is not None
        for read, terms in self._terms:
            old, new = event.texts(read)
            for value, equal in terms:
                if (old == value) is not equal:
                    was = False
                if (new == value) is not equal:
                    stays = False
        if self._all_labels:
            return was, stays
        return was and self._takes_labels(event.old), stays and self._takes_labels(event.new)

    def _takes_labels(self, obj: Object | None) -> bool:
        return obj is not None and self._labels.matches(obj["metadata"].get("labels"))

    def filter(self, records: list[Record], found: list[Record], limit: int = 0) -> Iterator[None]:
        """Appends matching records to `found`, up to `limit`; each step processes some records."""
        step = max(1, _STEP // max(1, len(self._labels.requirements) + len(self._fields.terms)))
        for at in range(0, len(records), step):
            found += [record for record in records[at : at + step] if self.takes(record)]
            if 0 < limit <= len(found):
                del found[limit:]
                return
            yield

    def index(self, kind: Kind) -> tuple[str, str] | None:
        """The (field, value) by which the hub can index a watcher."""
        for field in _INDEXED:
            value = self._fields.exact(field)
            if value is not None and (field == "metadata.name" or (kind.group, kind.plural) == ("", "pods")):
                return field, value
        return None


def chosen(objects: Objects, kind: Kind, labels: str, fields: str, name: str = "") -> Chosen | None:
    """The selection of a query; None if it selects everything. `name`: of the only object that may match. Raises 400
    with Kubernetes' message.
    """
    if not labels and not fields and not name:
        return None
    try:
        by_labels, by_fields = LabelSelector.parse(labels), FieldSelector.parse(fields)
    except SelectorError as error:
        raise bad_request(str(error)) from None
    if name:
        # The name is not appended as text: a selector that ends in a backslash would absorb it.
        by_fields = FieldSelector((*by_fields.terms, FieldTerm("metadata.name", True, name)))
    views = objects.views(kind)
    for term in by_fields.terms:
        _check_field(kind, views, term.field)
    if by_labels.everything and not by_fields.terms:
        return None
    own = any(term.field not in _ALWAYS for term in by_fields.terms)
    converted = own and kind.custom and objects.versions.converts(kind)
    # Cached results for stored objects do not apply to converted ones.
    seen = Views(kind, views.fields) if converted else views
    return Chosen(seen, by_labels, by_fields, (labels, str(by_fields)), converted)


def _check_field(kind: Kind, views: Views, field: str) -> None:
    if field in views.fields or (field == "metadata.name") or (field == "metadata.namespace" and kind.namespaced):
        return
    if (kind.group, kind.plural) in SELECTABLE or kind.custom:
        raise bad_request(_UNSUPPORTED.get(kind.kind, "field label not supported: {}").format(field))
    if field in _ALWAYS:
        return
    known = ", ".join(go_quote(name) for name in sorted(_ALWAYS))
    raise bad_request(f"{go_quote(field)} is not a known field selector: only {known}")
