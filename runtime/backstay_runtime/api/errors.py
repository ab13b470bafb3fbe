"""The one error object, whatever went wrong: `{"error": {message, type, param, code, trace_id}}`."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

INVALID = "invalid_request_error"
SERVER = "server_error"
UNAVAILABLE = "unavailable_error"


class ApiError(Exception):
    """An answer with an error object. `code` is for programs, the message for people."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.retry_after = retry_after
        """Seconds; becomes the Retry-After header."""

    @property
    def type(self) -> str:
        """The class of error, as OpenAI's clients know it."""
        if self.status == 503:
            return UNAVAILABLE
        return INVALID if self.status < 500 else SERVER

    @property
    def headers(self) -> dict[str, str]:
        """Headers beside the body."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        if self.status in (413, 431):
            headers["connection"] = "close"  # the rest of the request is not read
        return headers

    def body(self, trace_id: str | None) -> dict[str, Any]:
        """The error object. Lone surrogates are replaced: the body is valid UTF-8 whatever came in."""
        message = self.message.encode("utf-8", "replace").decode()
        param = None if self.param is None else self.param.encode("utf-8", "replace").decode()
        return {
            "error": {"message": message, "type": self.type, "param": param, "code": self.code, "trace_id": trace_id}
        }

    def response(self, trace_id: str | None) -> JSONResponse:
        """The answer."""
        return JSONResponse(self.body(trace_id), status_code=self.status, headers=self.headers)


def invalid(message: str, param: str | None = None, code: str = "invalid_value") -> ApiError:
    """400: the client's request is wrong."""
    return ApiError(400, message, code=code, param=param)


def loading() -> ApiError:
    """503: the model is not there yet."""
    return ApiError(503, "the model is being loaded; try again in a moment", code="loading", retry_after=2)


def draining() -> ApiError:
    """503: this process is about to end."""
    return ApiError(503, "this server is draining; connect again to reach another one", code="draining", retry_after=1)


def internal() -> ApiError:
    """500: a fault of ours; the log has the details under the trace id."""
    return ApiError(500, "internal error; the log names it under this trace id", code="internal_error")


def client_gone() -> ApiError:
    """499: nobody reads this; it stands in the log."""
    return ApiError(499, "the client closed the connection", code="client_gone")


def from_http(status: int, detail: str) -> ApiError:
    """What the framework itself refuses: unknown paths and methods."""
    codes: Mapping[int, str] = {404: "not_found", 405: "method_not_allowed"}
    return ApiError(status, detail, code=codes.get(status, "http_error"))
