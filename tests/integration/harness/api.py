"""The test's own way to the API server, so that what the operator did is read with other code than its own."""

import base64
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import yaml
from backstay_contract import names

Json = dict[str, Any]
MDEPS = f"/apis/{names.API_VERSION}/namespaces/{{namespace}}/{names.PLURAL}"


class Patient(httpx2.HTTPTransport):
    """Asks again where the API server says that it is too early, as kubectl does: right after a CRD came, for one."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        for _ in range(30):
            answer = super().handle_request(request)
            if answer.status_code != httpx2.codes.TOO_MANY_REQUESTS or request.url.path.endswith("/eviction"):
                return answer  # an eviction that a budget forbids is answered so, too
            answer.close()
            time.sleep(float(answer.headers.get("Retry-After", 1)))
        return super().handle_request(request)


@dataclass(frozen=True)
class Access:
    """Where the API server is and who asks."""

    server: str
    authority: str
    token: str

    def client(self) -> httpx2.Client:
        transport = Patient(verify=self._tls())
        return httpx2.Client(base_url=self.server, headers=self._headers(), transport=transport, timeout=15)

    def async_client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.server, headers=self._headers(), verify=self._tls(), timeout=15)

    def kubeconfig(self) -> str:
        cluster = {
            "server": self.server,
            "certificate-authority-data": base64.b64encode(self.authority.encode()).decode(),
        }
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "it", "cluster": cluster}],
                "users": [{"name": "it", "user": {"token": self.token}}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
                "current-context": "it",
            }
        )

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.authority)


def read_access(kubeconfig: Path) -> Access:
    """What a kubeconfig with a token says."""
    body = yaml.safe_load(kubeconfig.read_text())
    cluster, user = body["clusters"][0]["cluster"], body["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return Access(cluster["server"], authority, user["token"])


def done(response: httpx2.Response) -> Json:
    """The answer's JSON; fails with the API server's own words."""
    assert response.is_success, f"{response.request.method} {response.request.url}: {response.text}"
    body: Json = response.json()
    return body


def patch(body: Any, client: httpx2.Client, path: str, kind: str = "merge-patch") -> Json:
    """A patch as a person with kubectl would send it."""
    headers = {"Content-Type": f"application/{kind}+json"}
    return done(client.patch(path, json=body, headers=headers))
