"""The API client and HTTP, against servers on loopback."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from backstay_operator import client as clients
from backstay_operator import http as asking
from backstay_operator import kinds
from backstay_operator.client import ApiError, Client
from backstay_operator.http import Http, HttpError
from kubernetes.aio import client as generated

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Answers as a test says, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes, str]] = []
        self.handler: Handler = self.nothing
        self.url = ""

    async def nothing(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({})

    def says(self, body: Any, status: int = 200) -> None:
        async def answer(_: web.Request) -> web.StreamResponse:
            return (
                web.Response(body=body, status=status)
                if isinstance(body, bytes)
                else web.json_response(body, status=status)
            )

        self.handler = answer

    async def serve(self, request: web.Request) -> web.StreamResponse:
        given = (request.method, request.path, dict(request.query), await request.read(), request.content_type)
        self.asked.append(given)
        return await self.handler(request)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    one = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", one.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    one.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield one
    await runner.cleanup()


@pytest.fixture
async def api(server: Server) -> AsyncIterator[Client]:
    configuration = generated.Configuration(host=server.url)
    configuration.api_key["BearerToken"] = "bearer secret-token"
    async with Client(configuration, on_write=lambda verb, kind: None) as client:
        yield client


REFUSAL = {"kind": "Status", "reason": "Forbidden", "message": "not allowed"}


async def test_an_object_is_read_and_an_absent_one_is_none(server: Server, api: Client) -> None:
    server.says({"metadata": {"name": "a"}})
    assert await api.get(kinds.DEPLOYMENT, "ns", "a") == {"metadata": {"name": "a"}}
    assert server.asked[0][:2] == ("GET", "/apis/apps/v1/namespaces/ns/deployments/a")
    server.says({"reason": "NotFound", "message": "no"}, 404)
    assert await api.get(kinds.DEPLOYMENT, "ns", "a") is None


async def test_a_list_is_of_a_namespace_or_of_the_cluster_and_its_items_know_their_kind(
    server: Server, api: Client
) -> None:
    server.says({"items": [{"metadata": {"name": "a"}}]})
    (item,) = await api.list_all(kinds.POD, "ns", {"a": "b", "c/d": "e"})
    assert (item["kind"], item["apiVersion"]) == ("Pod", "v1")
    assert server.asked[0][1:3] == ("/api/v1/namespaces/ns/pods", {"labelSelector": "a=b,c/d=e"})
    server.says({"items": None})
    assert await api.list_all(kinds.POD, None) == []
    assert server.asked[1][1] == "/api/v1/pods"


async def test_each_kind_of_write_has_its_own_form(server: Server, api: Client) -> None:
    body = {"metadata": {"namespace": "ns", "name": "a"}}
    await api.create(kinds.SERVICE, body)
    await api.apply(kinds.DEPLOYMENT, body)
    await api.json_patch(kinds.SERVICE, "ns", "a", [{"op": "test", "path": "/x", "value": 1}])
    await api.json_patch(kinds.MODEL_DEPLOYMENT, "ns", "a", [{"op": "test", "path": "/x", "value": 1}], "status")
    await api.merge_patch(kinds.DEPLOYMENT, "ns", "a", {"spec": {}})
    await api.delete(kinds.SERVICE, "ns", "a", "uid-1")
    methods = [(method, content) for method, _, _, _, content in server.asked]
    assert methods == [
        ("POST", "application/json"),
        ("PATCH", "application/apply-patch+yaml"),
        ("PATCH", "application/json-patch+json"),
        ("PATCH", "application/json-patch+json"),
        ("PATCH", "application/merge-patch+json"),
        ("DELETE", "application/json"),
    ]
    assert server.asked[1][2] == {"fieldManager": "backstay-operator", "force": "true"}
    assert server.asked[3][1].endswith("/modeldeployments/a/status")
    assert json.loads(server.asked[5][3]) == {
        "propagationPolicy": "Background",
        "preconditions": {"uid": "uid-1"},
    }


async def test_writes_are_told_and_reads_are_not(server: Server) -> None:
    told: list[tuple[str, str]] = []
    configuration = generated.Configuration(host=server.url)
    async with Client(configuration, on_write=lambda verb, kind: told.append((verb, kind.name))) as client:
        await client.get(kinds.POD, "ns", "a")
        await client.json_patch(kinds.MODEL_DEPLOYMENT, "ns", "a", [], subresource="status")
        await client.apply(kinds.DEPLOYMENT, {"metadata": {"namespace": "ns", "name": "a"}})
    assert told == [("patch-status", "ModelDeployment"), ("apply", "Deployment")]


async def test_deleting_what_is_gone_is_no_error(server: Server, api: Client) -> None:
    server.says({"reason": "NotFound"}, 404)
    assert await api.delete(kinds.SERVICE, "ns", "a", "uid-1") is False


@pytest.mark.parametrize(
    ("status", "body", "conflict", "not_found"),
    [
        (404, {"reason": "NotFound", "message": "no"}, False, True),
        (409, {"reason": "Conflict", "message": "changed"}, True, False),
        (409, {"reason": "AlreadyExists", "message": "there"}, True, False),
        (422, {"reason": "Invalid", "message": f"the server {clients.PATCH_NOT_APPLICABLE}"}, True, False),
        (422, {"reason": "Invalid", "message": "spec.replicas: must be positive"}, False, False),
        (500, b"<html>", False, False),
        (403, REFUSAL, False, False),
    ],
)
async def test_refusals_are_told_apart(
    server: Server, api: Client, status: int, body: Any, conflict: bool, not_found: bool
) -> None:
    server.says(body, status)
    with pytest.raises(ApiError) as error:
        await api.json_patch(kinds.SERVICE, "ns", "a", [])
    assert (error.value.status, error.value.conflict, error.value.not_found) == (status, conflict, not_found)
    assert "secret-token" not in str(error.value)


async def test_an_answer_that_is_no_object_is_an_error(server: Server, api: Client) -> None:
    for body in (b"<html>", b"[]"):
        server.says(body)
        with pytest.raises(ApiError) as error:
            await api.get(kinds.POD, "ns", "a")
        assert error.value.status == 0


async def test_a_server_that_does_not_answer_is_not_waited_for(
    server: Server, api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "TIMEOUT_SECONDS", 0.1)

    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        raise AssertionError

    server.handler = hang
    with pytest.raises(ApiError, match="Timeout"):
        await api.get(kinds.POD, "ns", "a")


async def test_a_server_that_is_away_is_said() -> None:
    async with Client(generated.Configuration(host="http://127.0.0.1:1")) as client:
        with pytest.raises(ApiError, match="Unreachable"):
            await client.get(kinds.POD, "ns", "a")


async def test_the_end_of_a_log_is_kept(server: Server, api: Client) -> None:
    server.says(b"x" * 50 + "ä".encode() * 10)
    tail = await api.log_tail("ns", "p", "serve", lines=10, limit_bytes=11, previous=True)
    assert tail == "ä" * 5
    assert server.asked[0][2]["previous"] == "true"


async def test_whether_a_kind_is_served(server: Server, api: Client) -> None:
    server.says({"resources": [{"name": "modeldeployments"}, {"name": "modeldeployments/status"}]})
    assert await api.serves(kinds.MODEL_DEPLOYMENT) is True
    server.says({"resources": []})
    assert await api.serves(kinds.MODEL_DEPLOYMENT) is False
    server.says({"reason": "NotFound"}, 404)
    assert await api.serves(kinds.MODEL_DEPLOYMENT) is False


# --- pods and Prometheus -----------------------------------------------------------------------------------------


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    one = Http(timeout=0.3)
    yield one
    await one.close()


async def test_an_answer_has_status_headers_and_body(server: Server, http: Http) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response({"a": 1}, status=503, headers={"X-Model-Digest": "d"})

    server.handler = answer
    said = await http.ask("POST", f"{server.url}/x", body={"b": 2})
    assert (said.status, said.headers["x-model-digest"], said.json()) == (503, "d", {"a": 1})
    assert json.loads(server.asked[0][3]) == {"b": 2}


async def test_a_redirect_is_not_followed(server: Server, http: Http) -> None:
    async def away(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("http://169.254.169.254/")

    server.handler = away
    assert (await http.ask("GET", server.url)).status == 302


async def drip(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(100):
        await response.write(b"x")
        await asyncio.sleep(0.1)
    return response


async def test_a_pod_that_drips_is_not_waited_for(server: Server, http: Http) -> None:
    server.handler = drip
    with pytest.raises(HttpError, match=r"no answer within 0\.3 s"):
        await http.ask("GET", server.url)


async def test_an_answer_without_end_is_cut(server: Server, http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MAX_BYTES", 10)
    server.says(b"x" * 11)
    with pytest.raises(HttpError, match="longer than 10 bytes"):
        await http.ask("GET", server.url)


async def test_a_pod_that_is_away_is_a_problem_in_words(http: Http) -> None:
    with pytest.raises(HttpError, match="ClientConnectorError"):
        await http.ask("GET", "http://127.0.0.1:1/")


@pytest.mark.parametrize(
    "url", ["http://a..b/x", "http://.local/", f"http://{'a' * 64}.b/", "http://", "x", "http://a:b/"]
)
async def test_a_url_that_leads_nowhere_is_a_problem_in_words(http: Http, url: str) -> None:
    with pytest.raises(HttpError):
        await http.ask("GET", url)


@pytest.mark.parametrize("body", [b"", b"{", b'{"a": NaN}', b'{"a": -Infinity}', b"\xff"])
def test_what_is_no_json_is_a_problem(body: bytes) -> None:
    with pytest.raises(HttpError, match="not JSON"):
        asking.Answer(200, {}, body).json()


async def test_one_that_does_not_lead_reads_but_sends_no_write(server: Server) -> None:
    leave = [5.0]
    async with Client(generated.Configuration(host=server.url), leave=lambda: leave[0]) as client:
        await client.create(kinds.SERVICE, {"metadata": {"namespace": "n", "name": "a"}})
        leave[0] = 0.0
        with pytest.raises(ApiError) as error:
            await client.create(kinds.SERVICE, {"metadata": {"namespace": "n", "name": "b"}})
        await client.get(kinds.SERVICE, "n", "a")
    assert error.value.reason == "NotLeading"
    assert [method for method, *_ in server.asked] == ["POST", "GET"]


async def test_a_write_is_given_up_when_the_lease_is_about_to_end(server: Server) -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    server.handler = hang
    async with Client(generated.Configuration(host=server.url), leave=lambda: 0.1) as client:
        with pytest.raises(ApiError) as error:
            await client.create(kinds.SERVICE, {"metadata": {"namespace": "n", "name": "a"}})
    assert (error.value.status, error.value.reason) == (0, "Timeout")


async def test_a_long_list_is_read_in_pages_until_there_is_no_more(server: Server, api: Client) -> None:
    pages = {"": (["a", "b"], "next"), "next": (["c"], "")}

    async def answer(request: web.Request) -> web.StreamResponse:
        items, more = pages[request.query.get("continue", "")]
        return web.json_response({"items": items, "metadata": {"continue": more}})

    server.handler = answer
    found: list[Any] = [page async for page in api.pages(kinds.POD, "spec.nodeName!=", 2)]
    assert found == [["a", "b"], ["c"]]
    assert [query.get("continue") for _, _, query, _, _ in server.asked] == [None, "next"]
    assert {(query["fieldSelector"], query["limit"]) for _, _, query, _, _ in server.asked} == {
        ("spec.nodeName!=", "2")
    }
