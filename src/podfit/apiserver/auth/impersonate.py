"""Impersonation: a user with permission acts as another user by Impersonate-* headers.

Two kinds of permission are tried, in this order. Constrained: the verb `impersonate-on:<mode>:<verb>` on the target of
the request, and `impersonate:<mode>` on the user. Plain: the verb `impersonate` on the user. If neither is granted, the
error of the first that applies is returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec

from podfit.api.status import ApiError, bad_request, go_quote
from podfit.apiserver.auth.authenticate import with_authenticated
from podfit.apiserver.auth.authorize import MASTERS, Action, Authorization, refusal
from podfit.apiserver.request import ANONYMOUS, User

_NODE = "system:node:"
_ACCOUNT = "system:serviceaccount:"
_AUTHENTICATION = "authentication.k8s.io"
_UNAUTHENTICATED = "system:unauthenticated"
NODE_NAME_EXTRA = "authentication.kubernetes.io/node-name"


@dataclass(frozen=True, slots=True)
class ImpersonatedUsers:
    """The users named by the headers."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] | None = None


def wanted_of(headers: Sequence[tuple[str, str]] | Mapping[str, str]) -> ImpersonatedUsers | None:
    """The users named in the headers, given as pairs (one per group) or as a mapping (groups joined by newlines)."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    name = uid = ""
    groups: list[str] = []
    extra: dict[str, tuple[str, ...]] = {}
    for raw, value in pairs:
        key = raw.lower()
        if not key.startswith("impersonate-"):
            continue
        if key == "impersonate-user":
            name = value
        elif key == "impersonate-uid":
            uid = value
        elif key == "impersonate-group":
            groups.extend(value.split("\n"))
        elif key.startswith("impersonate-extra-"):
            field = unquote(key[len("impersonate-extra-") :])
            extra[field] = (*extra.get(field, ()), *value.split("\n"))
    if not name and (uid or groups or extra):
        raise bad_request(f"requested {_as_go(uid, groups, extra)} without impersonating a user name")
    return ImpersonatedUsers(name, uid, tuple(groups), extra) if name else None


def impersonate(authorization: Authorization, user: User, wanted: ImpersonatedUsers, action: Action) -> User:
    """Returns the impersonated user; raises 403 if `user` may not impersonate `wanted` for `action`."""
    # Administrators may impersonate any user; the checks below would all succeed.
    if MASTERS in user.groups:
        return _become(wanted)
    first: ApiError | None = None
    for mode in (*_modes(user, wanted), ""):
        try:
            return _try(authorization, user, wanted, action, mode)
        except ApiError as error:
            first = first or error
    assert first is not None
    raise first


def _modes(user: User, wanted: ImpersonatedUsers) -> list[str]:
    only_name = not (wanted.uid or wanted.groups or wanted.extra)
    if wanted.name.startswith(_NODE):
        if not only_name:
            return []
        own = user.extra.get(NODE_NAME_EXTRA, ()) == (wanted.name[len(_NODE) :],) and user.name.startswith(_ACCOUNT)
        return ["associated-node", "arbitrary-node"] if own else ["arbitrary-node"]
    if _account_of(wanted.name):
        return ["serviceaccount"] if only_name else []
    return ["user-info"]


def _try(authorization: Authorization, user: User, wanted: ImpersonatedUsers, action: Action, mode: str) -> User:
    if mode:
        authorization.check(user, msgspec.structs.replace(action, verb=f"impersonate-on:{mode}:{action.verb}"))
    for required in _required_actions(user, wanted, mode):
        authorization.check(user, required)
    return _become(wanted, fixed_groups=bool(mode))


def _required_actions(user: User, wanted: ImpersonatedUsers, mode: str) -> list[Action]:
    verb = f"impersonate:{mode}" if mode else "impersonate"
    group = _AUTHENTICATION if mode else ""
    account = _account_of(wanted.name)
    if account:
        required = [Action(verb, group, "serviceaccounts", namespace=account[0], name=account[1])]
    elif mode and wanted.name.startswith(_NODE):
        node = "*" if mode == "associated-node" else wanted.name[len(_NODE) :]
        required = [Action(verb, group, "nodes", name=node)]
    else:
        required = [Action(verb, group, "users", name=wanted.name)]
    if wanted.uid:
        required.append(Action(verb, _AUTHENTICATION, "uids", name=wanted.uid))
    if mode and MASTERS in wanted.groups:
        masters = Action(verb, group, "groups", name=MASTERS)
        raise refusal(user, masters, "impersonating the system:masters group is not allowed")
    required.extend(Action(verb, group, "groups", name=name) for name in wanted.groups)
    for key, values in (wanted.extra or {}).items():
        required.extend(Action(verb, _AUTHENTICATION, "userextras", key, name=value) for value in values)
    return required


def _become(wanted: ImpersonatedUsers, fixed_groups: bool = False) -> User:
    groups = wanted.groups
    account = _account_of(wanted.name)
    if account and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    elif fixed_groups and wanted.name.startswith(_NODE):
        groups = ("system:nodes",)
    user = User(wanted.name, groups, wanted.uid, wanted.extra or {})
    if user.name == ANONYMOUS.name:
        missing = () if _UNAUTHENTICATED in groups else (_UNAUTHENTICATED,)
        return User(user.name, (*groups, *missing), user.uid, user.extra)
    return with_authenticated(user)


def _account_of(name: str) -> tuple[str, str] | None:
    parts = name.removeprefix(_ACCOUNT).split(":")
    return (parts[0], parts[1]) if name.startswith(_ACCOUNT) and len(parts) == 2 and all(parts) else None


def _as_go(uid: str, groups: list[str], extra: Mapping[str, tuple[str, ...]]) -> str:
    """Formats the headers as Go prints the struct that it builds from them."""
    shown = "[]string{" + ", ".join(go_quote(group) for group in groups) + "}" if groups else "[]string(nil)"
    fields = ", ".join(
        f"{go_quote(key)}:[]string{{{', '.join(go_quote(value) for value in values)}}}"
        for key, values in sorted(extra.items())
    )
    more = f"map[string][]string{{{fields}}}" if extra else "map[string][]string(nil)"
    return f'&user.DefaultInfo{{Name:"", UID:{go_quote(uid)}, Groups:{shown}, Extra:{more}}}'
