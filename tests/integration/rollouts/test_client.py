"""What the operator relies on of the API server, asked of a real one with the operator's own client and rights."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from backstay_contract import names
from backstay_contract.resource import parse_spec
from backstay_contract.status import Colour
from backstay_operator import kinds
from backstay_operator import resource as resources
from backstay_operator.apply import status as writing
from backstay_operator.client import ApiError, Client
from backstay_operator.desired import services
from backstay_operator.desired.common import Owner
from backstay_operator.desired.deployment import deployment
from backstay_operator.resource import FINALIZER
from backstay_operator.rollout.revision import Wanted, recipe_of
from kubernetes.aio import client as generated
from kubernetes.aio import config

from tests.integration.harness.api import MDEPS, Access, Json, done, patch
from tests.integration.harness.story import model

pytestmark = pytest.mark.control_plane

Use = Callable[[Client], Awaitable[Any]]


@pytest.fixture
def use(operator_kubeconfig: Path) -> Callable[[Use], Any]:
    """Runs something with a client that has the operator's rights."""

    async def run(what: Use) -> Any:
        configuration = generated.Configuration()
        await config.load_kube_config(str(operator_kubeconfig), client_configuration=configuration)  # type: ignore[no-untyped-call]
        async with Client(configuration) as client:
            return await what(client)

    return lambda what: asyncio.run(run(what))


@pytest.fixture
def resource(access: Access, crd: str, namespace: str) -> Json:
    """A ModelDeployment that no operator works on."""
    body = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": "chat", "namespace": namespace},
        "spec": {"model": model("1.0.0")},
    }
    with access.client() as client:
        return done(client.post(MDEPS.format(namespace=namespace), json=body))


@pytest.fixture
def owner(resource: Json) -> Owner:
    metadata = resource["metadata"]
    return Owner(metadata["namespace"], metadata["name"], metadata["uid"])


def rendered(owner: Owner, **serving: Any) -> Json:
    spec = parse_spec({"model": model("1.0.0"), "serving": serving})
    build = Wanted("0123456789ab", recipe_of(spec, "runtime:1"))
    return deployment(owner, spec, Colour.BLUE, build, attempt="0123456789ab-1", replicas=0, token_hash="h")


def environment(body: Json) -> dict[str, str]:
    (container,) = body["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"]}


def test_what_a_new_attempt_no_longer_sets_is_gone_from_the_deployment(use: Callable[[Use], Any], owner: Owner) -> None:
    first = use(lambda client: client.apply(kinds.DEPLOYMENT, rendered(owner, maxModelLen=64)))
    assert environment(first)["BACKSTAY_MAX_MODEL_LEN"] == "64"
    scale = {"metadata": {"uid": first["metadata"]["uid"]}, "spec": {"replicas": 1}}
    use(lambda client: client.merge_patch(kinds.DEPLOYMENT, owner.namespace, "chat-blue", scale))
    second = use(lambda client: client.apply(kinds.DEPLOYMENT, rendered(owner)))
    assert "BACKSTAY_MAX_MODEL_LEN" not in environment(second)
    assert second["spec"]["replicas"] == 0


def test_applying_the_same_again_changes_nothing(use: Callable[[Use], Any], owner: Owner) -> None:
    first = use(lambda client: client.apply(kinds.DEPLOYMENT, rendered(owner)))
    second = use(lambda client: client.apply(kinds.DEPLOYMENT, rendered(owner)))
    assert first["metadata"]["generation"] == second["metadata"]["generation"] == 1


def refusal(use: Callable[[Use], Any], what: Use) -> ApiError:
    with pytest.raises(ApiError) as error:
        use(what)
    return error.value


def test_a_failed_test_of_a_json_patch_is_told_as_a_conflict(use: Callable[[Use], Any], owner: Owner) -> None:
    use(lambda client: client.create(kinds.SERVICE, services.active(owner)))
    path = "/spec/selector/backstay.dev~1colour"
    patch = [{"op": "test", "path": path, "value": "green"}, {"op": "replace", "path": path, "value": "blue"}]
    error = refusal(use, lambda client: client.json_patch(kinds.SERVICE, owner.namespace, "chat", patch))
    assert error.conflict
    stored = use(lambda client: client.get(kinds.SERVICE, owner.namespace, "chat"))
    assert services.selected(stored) is None


@pytest.mark.parametrize("kind", [kinds.SERVICE, kinds.MODEL_DEPLOYMENT])
def test_a_write_to_another_object_of_the_same_name_is_refused(
    use: Callable[[Use], Any], owner: Owner, kind: kinds.Kind
) -> None:
    use(lambda client: client.create(kinds.SERVICE, services.active(owner)))
    body = {"metadata": {"uid": "00000000-0000-4000-8000-000000000000", "labels": {"a": "b"}}}
    error = refusal(use, lambda client: client.merge_patch(kind, owner.namespace, "chat", body))
    assert error.status in (409, 422)
    stored = use(lambda client: client.get(kind, owner.namespace, "chat"))
    assert "a" not in stored["metadata"].get("labels", {})


def test_a_status_for_another_uid_is_refused(use: Callable[[Use], Any], owner: Owner) -> None:
    body = use(lambda client: client.get(kinds.MODEL_DEPLOYMENT, owner.namespace, "chat"))
    before = resources.read({**body, "metadata": {**body["metadata"], "uid": "another", "resourceVersion": "1"}})
    assert refusal(use, lambda client: writing.write(client, before, {"phase": "Serving"})).conflict
    assert use(lambda client: writing.write(client, resources.read(body), {"phase": "Serving"})) is True
    stored = use(lambda client: client.get(kinds.MODEL_DEPLOYMENT, owner.namespace, "chat"))
    assert stored["status"]["phase"] == "Serving"


def test_a_status_has_one_writer_and_keeps_nothing_that_is_not_its(use: Callable[[Use], Any], owner: Owner) -> None:
    path = (kinds.MODEL_DEPLOYMENT, owner.namespace, "chat")

    def applied(**status: Any) -> Json:
        body = use(lambda client: client.get(*path))
        use(lambda client: writing.write(client, resources.read(body), status))
        stored: Json = use(lambda client: client.get(*path))
        return stored

    failure = {"reason": "Evicted", "message": "m", "at": "2026-01-01T12:00:00Z"}
    applied(phase="Serving", attempts=1, lastFailure=failure)
    assert "lastFailure" not in applied(phase="Serving", attempts=1)["status"]
    theirs = [{"op": "add", "path": "/status/message", "value": "theirs"}]
    use(lambda client: client.json_patch(*path, theirs, subresource="status"))
    stored = applied(phase="Held", attempts=1, message="ours")
    assert (stored["status"]["phase"], stored["status"]["message"]) == ("Held", "ours")
    entries = [one for one in stored["metadata"]["managedFields"] if one.get("subresource") == "status"]
    assert ("backstay-operator", "Apply") in {(one["manager"], one["operation"]) for one in entries}
    assert use(lambda client: writing.write(client, resources.read(stored), stored["status"])) is False


def test_under_an_older_crd_the_status_is_written_as_far_as_that_goes(
    use: Callable[[Use], Any], owner: Owner, access: Access
) -> None:
    definition = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.PLURAL}.{names.GROUP}"
    notices = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/notices"
    path = (kinds.MODEL_DEPLOYMENT, owner.namespace, "chat")
    with access.client() as admin:
        whole = done(admin.get(definition))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        patch([{"op": "remove", "path": notices}], admin, definition, "json-patch")
        try:
            time.sleep(2)  # the API server takes a moment to serve by the new schema
            body = use(lambda client: client.get(*path))
            told = [{"id": "a", "reason": "Breach", "at": "2026-01-01T12:00:00Z"}]
            use(lambda client: writing.write(client, resources.read(body), {"phase": "Held", "notices": told}))
            stored = use(lambda client: client.get(*path))
        finally:
            known = whole["properties"]["status"]["properties"]["notices"]
            patch([{"op": "add", "path": notices, "value": known}], admin, definition, "json-patch")
            time.sleep(2)
    assert stored["status"]["phase"] == "Held"
    assert "notices" not in stored["status"]


def test_a_stale_list_of_finalizers_is_refused(use: Callable[[Use], Any], owner: Owner, resource: Json) -> None:
    version = resource["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version, "finalizers": [FINALIZER]}}
    path = (kinds.MODEL_DEPLOYMENT, owner.namespace, "chat")
    use(lambda client: client.merge_patch(*path, body))
    body["metadata"]["finalizers"] = []
    assert refusal(use, lambda client: client.merge_patch(*path, body)).conflict
    use(lambda client: client.merge_patch(*path, {"metadata": {"finalizers": None}}))


def test_only_the_object_of_that_uid_is_deleted(use: Callable[[Use], Any], owner: Owner) -> None:
    created = use(lambda client: client.create(kinds.SERVICE, services.active(owner)))
    error = refusal(use, lambda client: client.delete(kinds.SERVICE, owner.namespace, "chat", "another"))
    assert error.conflict
    uid = created["metadata"]["uid"]
    assert use(lambda client: client.delete(kinds.SERVICE, owner.namespace, "chat", uid)) is True
    assert use(lambda client: client.delete(kinds.SERVICE, owner.namespace, "chat", uid)) is False


@pytest.mark.parametrize("path", ["/api/v1/namespaces/{}/secrets", "/api/v1/namespaces/{}/configmaps"])
def test_the_role_lets_the_operator_read_no_secrets(use: Callable[[Use], Any], namespace: str, path: str) -> None:
    kind = kinds.Kind("Secret", "v1", path.rpartition("/")[2])
    assert refusal(use, lambda client: client.list_all(kind, namespace)).status == 403
