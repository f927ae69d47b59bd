"""Volume claims that prevent a pod from being scheduled at all."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.scheduler.decide.pod.claims import Claims

POD = {
    "metadata": {"name": "p", "namespace": "ns"},
    "spec": {"volumes": [{"name": "e", "emptyDir": {}}, {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
}


def claim(**meta: str) -> Object:
    return {"metadata": {"name": "data", "namespace": "ns", **meta}}


def aware() -> Claims:
    claims = Claims()
    claims.aware = True
    return claims


def test_a_missing_claim_is_named_and_its_arrival_changes_the_version() -> None:
    claims = aware()
    assert claims.refusal(POD) == 'persistentvolumeclaim "data" not found'
    before = claims.version
    claims.changed(None, claim())
    assert claims.refusal(POD) == "" and claims.version == before + 1


def test_a_claim_that_no_pod_missed_changes_nothing() -> None:
    claims = aware()
    claims.changed(None, claim())
    assert claims.version == 0


def test_a_claim_that_is_being_deleted_will_not_do() -> None:
    claims = aware()
    claims.changed(None, claim(deletionTimestamp="now"))
    assert claims.refusal(POD) == 'persistentvolumeclaim "data" is being deleted'
    claims.changed(claim(), None)
    assert claims.refusal(POD) == 'persistentvolumeclaim "data" not found'


def test_without_knowledge_of_claims_none_is_missed() -> None:
    assert Claims().refusal(POD) == ""
