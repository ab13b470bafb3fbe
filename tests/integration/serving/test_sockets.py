import hashlib
import http.client
import json
import socket
import time
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from backstay_contract.names import Env

from .processes import Server, raw, running

LONG = {"prompt": "a", "max_tokens": 8000, "temperature": 0, "ignore_eos": True}


def error_of(answer: bytes) -> Any:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/json" in head
    return json.loads(body)["error"]


@pytest.mark.parametrize(
    "content", [b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"]
)
def test_what_is_no_http_gets_the_error_object(server: Server, content: bytes) -> None:
    answer = raw(server.port, content)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert error_of(answer)["code"] == "invalid_http"


@pytest.mark.case("I37")
def test_headers_without_an_end_are_refused_while_they_come(server: Server) -> None:
    began = time.monotonic()
    endless = b"GET /v1/models HTTP/1.1\r\nhost: a\r\nx-large: " + b"a" * 2_000_000
    assert raw(server.port, endless).startswith(b"HTTP/1.1 400 ")
    assert time.monotonic() - began < 5
    assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_a_large_body_is_refused_before_it_is_sent(server: Server) -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999\r\n\r\n"
    answer = raw(server.port, head + b"a" * 1000)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert error_of(answer)["code"] == "body_too_large"


def test_a_kept_connection_serves_many_requests(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    for _ in range(20):
        body = json.dumps({"prompt": "a", "max_tokens": 2})
        connection.request("POST", "/v1/completions", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.getheader("connection") is None
        answer.read()
    connection.close()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.case("I23")
def test_who_closes_the_socket_frees_the_cache(server: Server, stream: bool) -> None:
    cancelled = server.value("backstay_requests_in_flight")
    content = json.dumps({**LONG, "stream": stream}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {len(content)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.sendall(head + content)
        wait_for(lambda: server.value("backstay_kv_blocks_used") > 0)
    began = time.monotonic()
    wait_for(lambda: server.value("backstay_kv_blocks_used") == 0)
    assert time.monotonic() - began < 2
    wait_for(lambda: server.value("backstay_requests_in_flight") == cancelled)


def wait_for(condition: Any, patience: float = 20.0) -> None:
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "it does not come to pass"
        time.sleep(0.02)


@pytest.mark.case("I41")
def test_one_slow_reader_does_not_hold_up_the_others(server: Server) -> None:
    content = json.dumps({**LONG, "max_tokens": 4000, "stream": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {len(content)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(head + content)  # and reads nothing
        began = time.monotonic()
        for _ in range(5):
            body = {"prompt": "b", "max_tokens": 5}
            assert httpx.post(f"{server.url}/v1/completions", json=body, timeout=30).status_code == 200
        assert time.monotonic() - began < 10


def test_the_control_port_asks_for_its_token(folder: Path, tmp_path: Path) -> None:
    known = {Env.CONTROL_TOKEN_SHA256: hashlib.sha256(b"token").hexdigest()}
    with running(tmp_path, "--model", str(folder), **known) as server:
        server.wait_until_ready()
        control = f"http://127.0.0.1:{server.control_port}/control"
        assert httpx.get(f"{control}/state").status_code == 401
        bearer = {"authorization": "Bearer token"}
        changed = httpx.put(f"{control}/mode", json={"mode": "draining"}, headers=bearer)
        assert changed.json()["mode"] == "draining"
        assert httpx.get(f"{server.url}/readyz").status_code == 503
        assert "token" not in json.dumps([line for line in server.log() if "token" in line.get("message", "")])
