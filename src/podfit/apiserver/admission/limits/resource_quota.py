"""ResourceQuota: charges a write's additional usage to the quotas of its namespace, and rejects it if it exceeds them.

It runs last, because a charged write should be stored. Writes of one namespace are charged in batches: all waiting
ones are checked against the same copy of the quotas and charged with one update of each, so a burst of creations costs
one write of the quota and not one each. If a quota changed meanwhile, it is read and checked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podfit.api.objects import Object
from podfit.api.pods.resources import Amounts, amounts
from podfit.api.quantity import Quantity
from podfit.api.quotas import growth, has_deadline, matches, missing, relevant, usage
from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError, internal_error
from podfit.apiserver.admission.base import CREATE, UPDATE, Attributes, Cluster, Plugin, meta_of, spec_of

RESOURCE_QUOTA = kind_named("ResourceQuota")
_UNCOUNTED = frozenset(
    {
        ("", "bindings"),
        ("", "events"),
        ("events.k8s.io", "events"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
    }
)
_CHARGED_ON_UPDATE = frozenset(
    {("", "services", ""), ("", "persistentvolumeclaims", ""), ("", "pods", ""), ("", "pods", "resize")}
)
_TRIES = 10


@dataclass(slots=True)
class _Waiter:
    attrs: Attributes
    done: asyncio.Future[None]


class ResourceQuota(Plugin):
    name = "ResourceQuota"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waiting: dict[str, list[_Waiter]] = {}
        self._charging: dict[str, asyncio.Task[None]] = {}

    def handles(self, attrs: Attributes) -> bool:
        if not attrs.kind.namespaced or attrs.resource in _UNCOUNTED:
            return False
        if attrs.operation == UPDATE:
            return (*attrs.resource, attrs.subresource) in _CHARGED_ON_UPDATE
        return attrs.operation == CREATE and not attrs.subresource

    async def validate(self, attrs: Attributes) -> None:
        if attrs.operation == UPDATE and attrs.resource == ("", "pods") and not _may_matter(attrs):
            return
        if not self._cluster.list(RESOURCE_QUOTA, attrs.namespace):
            return
        waiter = _Waiter(attrs, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(attrs.namespace, []).append(waiter)
        if attrs.namespace not in self._charging:
            task = asyncio.create_task(self._charge(attrs.namespace), name=f"quota {attrs.namespace}")
            self._charging[attrs.namespace] = task
        await waiter.done

    async def _charge(self, namespace: str) -> None:
        try:
            while batch := self._waiting.pop(namespace, None):
                await self._charge_batch(namespace, batch)
        finally:
            del self._charging[namespace]

    async def _charge_batch(self, namespace: str, batch: list[_Waiter]) -> None:
        for _ in range(_TRIES):
            ledger = QuotaUsage(self._cluster.list(RESOURCE_QUOTA, namespace))
            fitting = _check_all(ledger, batch)
            try:
                for quota in ledger.changed():
                    await self._cluster.update_status(RESOURCE_QUOTA, quota)
            except ApiError as error:
                if error.code == 409:
                    batch = fitting
                    continue
                _settle(fitting, error)
            except Exception as error:
                _settle(fitting, internal_error(str(error)))
            else:
                _settle(fitting, None)
            return
        _settle(batch, internal_error("resource quota evaluation timed out"))


def _may_matter(attrs: Attributes) -> bool:
    """Whether an update of a pod can change its usage: if it sets a deadline, which moves the pod to other scopes, or
    if it is a resize in a dialect that changes resources there."""
    return (
        bool(attrs.subresource)
        or attrs.resizes
        or has_deadline(spec_of(attrs.old)) != has_deadline(spec_of(attrs.object))
    )


def _check_all(ledger: QuotaUsage, batch: list[_Waiter]) -> list[_Waiter]:
    """Charges the writes that fit to the ledger and returns them; the others are rejected immediately."""
    fitting = []
    for waiter in batch:
        try:
            ledger.charge(waiter.attrs)
        except ApiError as error:
            _settle([waiter], error)
        except Exception as error:
            # One object whose usage cannot be computed must not block the others of its namespace.
            _settle([waiter], internal_error(str(error)))
        else:
            fitting.append(waiter)
    return fitting


def _settle(waiters: list[_Waiter], error: ApiError | None) -> None:
    for waiter in waiters:
        if waiter.done.done():
            continue
        if error is None:
            waiter.done.set_result(None)
        else:
            waiter.done.set_exception(error)


class QuotaUsage:
    """The quotas of a namespace while a batch is charged: current usage, and additions."""

    def __init__(self, quotas: Sequence[Object]) -> None:
        self._quotas = sorted(quotas, key=lambda quota: str(meta_of(quota).get("name")))
        self._used: list[Amounts] = [amounts((quota.get("status") or {}).get("used")) for quota in self._quotas]
        self._touched: set[int] = set()

    def charge(self, attrs: Attributes) -> None:
        """Adds the write to every quota that applies to it, or raises and adds it to none."""
        assert attrs.object is not None
        group, plural = attrs.resource
        concerned = [index for index, quota in enumerate(self._quotas) if matches(quota, group, plural, attrs.object)]
        for index in concerned:
            self._check_known(attrs, index)
        if not concerned:
            return
        whole = _usage(attrs, attrs.object)
        added = whole
        if attrs.operation == UPDATE and attrs.old is not None:
            added = growth(whole, _usage(attrs, attrs.old))
        totals: dict[int, Amounts] = {}
        for index in concerned:
            entered = attrs.old is not None and not matches(self._quotas[index], group, plural, attrs.old)
            delta = {name: amount for name, amount in (whole if entered else added).items() if amount.nanos}
            if delta:
                totals[index] = self._fit(attrs, index, delta)
        if not attrs.dry_run:
            for index, total in totals.items():
                self._used[index] = total
                self._touched.add(index)

    def changed(self) -> list[Object]:
        """The quotas to write, with their new status."""
        written = []
        for index in sorted(self._touched):
            quota = self._quotas[index]
            used = {name: str(amount) for name, amount in sorted(self._used[index].items())}
            written.append({**quota, "status": {**(quota.get("status") or {}), "used": used}})
        return written

    def _check_known(self, attrs: Attributes, index: int) -> None:
        assert attrs.object is not None
        quota = self._quotas[index]
        name = meta_of(quota).get("name")
        names = relevant(*attrs.resource, (quota.get("status") or {}).get("hard") or {})
        if attrs.resource == ("", "pods"):
            lacking = missing(attrs.object, names)
            if lacking:
                raise attrs.forbid(f"failed quota: {name}: {lacking}")
        if not names <= self._used[index].keys():
            raise attrs.forbid(f"status unknown for quota: {name}, resources: {','.join(sorted(names))}")

    def _fit(self, attrs: Attributes, index: int, delta: Amounts) -> Amounts:
        quota = self._quotas[index]
        hard = amounts((quota.get("status") or {}).get("hard"))
        used = self._used[index]
        requested = {name: amount for name, amount in delta.items() if name in hard}
        total = {**used, **{n: used[n] + amount if n in used else amount for n, amount in requested.items()}}
        exceeded = [name for name in requested if total[name] > hard[name]]
        if exceeded:
            raise attrs.forbid(
                f"exceeded quota: {meta_of(quota).get('name')}, requested: {_formatted(requested, exceeded)}, "
                f"used: {_formatted(used, exceeded)}, limited: {_formatted(hard, exceeded)}"
            )
        return total


def _usage(attrs: Attributes, obj: Object) -> Amounts:
    return usage(*attrs.resource, obj if attrs.in_quota is None else attrs.in_quota(obj))


def _formatted(values: Mapping[str, Quantity], names: Sequence[str]) -> str:
    return ",".join(f"{name}={values[name]}" for name in sorted(names) if name in values)
