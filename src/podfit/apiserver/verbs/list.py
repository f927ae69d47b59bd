"""Handles GET of a collection, as a whole or in pages, at the newest revision, at an exact one, or at one not older
than a given revision.

The token of a page contains the revision of the first page, so all pages show one snapshot. If that revision has been
compacted, the client gets 410 with a token to continue from the newest state instead.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

import msgspec

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.status import ApiError, bad_request, go_quote
from podfit.api.text.gojson import GoSyntaxError, parse
from podfit.apiserver.calls import Call
from podfit.apiserver.protobufs.form import ProtobufForm
from podfit.apiserver.representation.forms import Spliced
from podfit.apiserver.representation.selection import Chosen, chosen
from podfit.apiserver.request import Response
from podfit.apiserver.storage.revisions import too_large, too_old, unsigned, wait_until
from podfit.apiserver.writing.options import ListOptions, list_options
from podfit.store.backend import Compacted, FutureRevision, Record, Store

_MANY = 1000
_EXPIRED_TOKEN = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


async def list_objects(call: Call) -> Response:
    accepted = call.accepted()
    form = call.form(accepted)
    options = list_options(call.request.query, False)
    selection = chosen(call.objects, call.kind, options.label_selector, options.field_selector)
    prefix = prefix_of(call.kind, call.namespace)
    if call.objects.store.count(prefix) >= _MANY:
        await call.parts.long_responses.wait(call.request)
    if selection is not None and selection.name is not None and not options.token and _newest(options):
        found = await _converted(call, await _by_name(call, selection, options))
        return await call.reply_list(accepted, form, *found)
    page = await _page(call, prefix, options, selection)
    if call.kind.custom:
        stored, page = page[0], await _converted(call, page)
        if page[0] is not stored:
            return await call.reply_list(accepted, form, *page)
    keeps = selection is None and not options.limit and isinstance(form, Spliced | ProtobufForm) and form.keeps
    return await call.reply_list(accepted, form, *page, prefix if keeps else "")


Page = tuple[Sequence[Record], int, Object | None]


async def _converted(call: Call, page: Page) -> Page:
    return await call.objects.shown(call.kind, page[0]), page[1], page[2]


async def visible(call: Call, records: list[Record], selection: Chosen) -> list[Record]:
    """The records in the form on which the selection is evaluated."""
    return [*await call.objects.shown(call.kind, records)] if selection.converted else records


def prefix_of(kind: Kind, namespace: str) -> str:
    return kind.key(namespace, "") if namespace else kind.storage_prefix


def _newest(options: ListOptions) -> bool:
    return options.revision in ("", "0") or (options.match != "Exact" and not options.limit)


async def _by_name(call: Call, selection: Chosen, options: ListOptions) -> Page:
    """The page of a list restricted to one name: a lookup in one namespace, or a scan for the name in all of them."""
    store = call.objects.store
    await _reach(store, options.revision)
    revision = store.revision
    if call.kind.namespaced and not call.namespace:
        records = [
            record for record in store.scan(call.kind.storage_prefix) if record.key.endswith(f"/{selection.name}")
        ]
    else:
        found = store.get(call.kind.key(call.namespace, selection.name or ""))
        records = [] if found is None else [found]
    return [record for record in await visible(call, records, selection) if selection.takes(record)], revision, None


async def _reach(store: Store, revision: str) -> None:
    """Waits until the view has reached the requested revision."""
    if not revision:
        await store.sync()
    elif revision != "0":
        await wait_until(store, parse_revision(revision))


def parse_revision(text: str) -> int:
    number, complaint = unsigned(text)
    if complaint:
        raise bad_request(f"invalid resource version: resourceVersion: Invalid value: {go_quote(text)}: {complaint}")
    return number


async def _page(call: Call, prefix: str, options: ListOptions, selection: Chosen | None) -> Page:
    store, after, at = call.objects.store, "", 0
    # Kubernetes answers revision 0 from its cache, which does not support paging.
    limit = options.limit if options.token or options.revision != "0" else 0
    if options.token:
        at, start = read_token(options.token)
        if options.revision not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        after = prefix + start
    elif options.match == "Exact" or (not options.match and options.limit > 0 and options.revision not in ("", "0")):
        at = parse_revision(options.revision)
        if at > store.revision:
            await wait_until(store, at)
    else:
        await _reach(store, options.revision)
    revision = at if at > 0 else store.revision
    try:
        records, more = await _take(call, prefix, after, at, limit, selection)
    except Compacted as gone:
        raise _expired(options, prefix, after, at, gone.oldest) from None
    except FutureRevision as future:
        raise too_large(at, future.current) from None
    meta: Object | None = None
    if more:
        last = records[-1].key
        meta = {"continue": _token(revision, last[len(prefix) :])}
        if selection is None:
            meta["remainingItemCount"] = store.count_at(at, prefix, last) if at > 0 else store.count(prefix, last)
    return records, revision, meta


async def _take(
    call: Call, prefix: str, after: str, at: int, limit: int, selection: Chosen | None
) -> tuple[list[Record], bool]:
    """Up to `limit` selected records, and whether there are more."""
    store = call.objects.store
    wanted = limit + 1 if limit > 0 and selection is None else 0
    records = store.scan_at(at, prefix, after, wanted) if at > 0 else store.scan(prefix, after, wanted)
    if selection is None:
        return (records[:limit], True) if 0 < limit < len(records) else (records, False)
    found: list[Record] = []
    records = await visible(call, records, selection)
    await call.parts.long_responses.run(call.request, selection.filter(records, found, max(limit, 0)))
    # Kubernetes stops at the last item of a page: if any keys follow, selected or not, there is another page.
    return found, 0 < limit <= len(found) and found[-1] is not records[-1]


_NO_BASE64 = re.compile(r"[^A-Za-z0-9_-]")


def _token(revision: int, start: str) -> str:
    data = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": revision, "start": start + "\u0000"})
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def read_token(token: str) -> tuple[int, str]:
    """Parses a token to (revision, start). Revision -1 continues from the newest state."""
    text = token.replace("\r", "").replace("\n", "")
    bad = _NO_BASE64.search(text)
    if bad is not None or len(text) % 4 == 1:
        at = len(text) - 1 if bad is None else bad.start()
        why = f"illegal base64 data at input byte {at}"
        raise bad_request(f"invalid continue token: continue key is not valid: {why}")
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    try:
        data = parse(raw)
    except GoSyntaxError as error:
        # Kubernetes parses tokens with a different parser than bodies, whose errors show non-ASCII bytes unchanged.
        why = re.sub(
            r"'\\u00(..)'|'([\x80-\xff])'", lambda found: f"'\\x{found[1] or f'{ord(found[2]):02x}'}'", str(error)
        )
        raise bad_request(f"invalid continue token: continue key is not valid: {why}") from None
    if not isinstance(data, dict) or data.get("v") != "meta.k8s.io/v1":
        raise bad_request(
            "invalid continue token: continue key is not valid: server does not recognize this encoded version "
            + (str(data.get("v", "")) if isinstance(data, dict) else "")
        )
    revision, start = data.get("rv"), data.get("start")
    if not isinstance(revision, int) or not isinstance(start, str) or revision == 0 or not start:
        raise bad_request(
            "invalid continue token: continue key is not valid: incorrect encoded start resourceVersion (version "
            "meta.k8s.io/v1)"
        )
    if ".." in start.split("/"):
        raise bad_request(f"invalid continue token: continue key is not valid: {start}")
    return revision, start.rstrip("\u0000")


def _expired(options: ListOptions, prefix: str, after: str, at: int, oldest: int) -> ApiError:
    if not options.token:
        return too_old(at, oldest)
    error = ApiError(410, "Expired", _EXPIRED_TOKEN)
    error.list_meta = {"continue": _token(-1, after[len(prefix) :])}
    return error
