"""What requests may say. Unknown fields are ignored, as OpenAI's clients expect; known ones are checked strictly."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from backstay_runtime.schedule.priority import Priority
from backstay_runtime.text.truncate import Truncate

MAX_N = 8
MAX_PROMPTS = 32
MAX_TEXTS = 32  # of a request for embeddings or classes
MAX_STOPS = 4
MAX_STOP_CHARACTERS = 200
MAX_LOGPROBS = 20
MAX_MESSAGES = 1000
MAX_BIASES = 1024
MAX_SALT_CHARACTERS = 256
MAX_TIMEOUT = 3600.0  # seconds


class StreamOptions(BaseModel):
    """`stream_options`."""

    model_config = ConfigDict(strict=True, extra="ignore")

    include_usage: bool = False


class Generation(BaseModel):
    """What both ways of generating text have in common."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    model: str | None = None
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: Annotated[tuple[str, ...], Field(max_length=MAX_STOPS)] = ()
    n: Annotated[int, Field(ge=1, le=MAX_N)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    ignore_eos: bool = False
    min_tokens: Annotated[int, Field(ge=0)] = 0
    timeout: Annotated[float, Field(gt=0, le=MAX_TIMEOUT)] | None = None
    """Seconds from arrival after which the answer is of no use any more."""
    priority: Annotated[Priority, Field(strict=False)] = Priority.NORMAL
    """The request's class while it waits."""
    cache_salt: Annotated[str, Field(max_length=MAX_SALT_CHARACTERS)] = ""
    """Prompts share what was computed for equal beginnings only where their salts are equal."""
    logit_bias: Annotated[dict[str, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=MAX_BIASES)] | None = (
        None
    )
    num_beams: Annotated[int, Field(ge=1, le=MAX_N)] | None = None
    """Beams of a beam search; its texts depend on no chance."""
    length_penalty: Annotated[float, Field(ge=0, le=3)] = 1.0
    """Beams are compared by log-probability / length ** this."""

    @field_validator("stop", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        if value is None:
            return ()
        if isinstance(value, str):
            return (value,)
        return tuple(value) if isinstance(value, list) else value

    @field_validator("stop")
    @classmethod
    def _stops_are_short_texts(cls, stops: tuple[str, ...]) -> tuple[str, ...]:
        for stop in stops:
            if not 1 <= len(stop) <= MAX_STOP_CHARACTERS:
                raise ValueError(f"a stop string has 1 to {MAX_STOP_CHARACTERS} characters, this one {len(stop)}")
        return stops

    @model_validator(mode="after")
    def _beams_are_whole_texts(self) -> Self:
        if self.num_beams is None:
            return self
        if self.stream:
            raise ValueError("num_beams cannot be streamed: a beam search knows its text at the end; leave stream out")
        if self.num_beams < (self.n or 1):
            raise ValueError(f"num_beams {self.num_beams} must be at least n {self.n or 1}")
        return self


class CompletionRequest(Generation):
    """Body of /v1/completions."""

    prompt: Any
    """A text, texts, token ids, or several lists of them; checked where it is read."""
    echo: bool = False
    logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    best_of: Annotated[int, Field(ge=1, le=MAX_N)] | None = None
    """Texts that are written; the n of them whose tokens are likeliest on average are the answer."""
    truncate: Annotated[Truncate | None, Field(strict=False)] = None
    """What is kept of a prompt that is too long; left out: it is refused."""
    suffix: str | None = None

    @model_validator(mode="after")
    def _only_what_is_supported(self) -> Self:
        if self.suffix:
            raise ValueError("suffix is not supported; leave it out")
        if self.best_of is not None and self.best_of < (self.n or 1):
            raise ValueError(f"best_of {self.best_of} must be at least n {self.n or 1}")
        if self.copies > (self.n or 1) and (self.stream or self.num_beams):
            raise ValueError("best_of above n cannot be streamed, nor searched with beams; leave one of them out")
        if self.num_beams and self.logprobs is not None:
            raise ValueError("logprobs are not told for beams; leave one of them out")
        if self.max_tokens == 0 and not self.echo:
            raise ValueError("max_tokens 0 generates nothing: write at least 1, or set echo")
        return self

    @property
    def copies(self) -> int:
        """Texts that are written for each prompt."""
        return max(self.n or 1, self.best_of or 1)


class TextPart(BaseModel):
    """A part of a message's content."""

    model_config = ConfigDict(strict=True, extra="ignore")

    type: str
    text: str | None = None

    @model_validator(mode="after")
    def _only_text(self) -> Self:
        if self.type != "text" or self.text is None:
            raise ValueError(f"a content part of type {self.type!r} is not supported; this model reads 'text' parts")
        return self


class Message(BaseModel):
    """One message of a chat."""

    model_config = ConfigDict(strict=True, extra="ignore")

    role: Annotated[str, Field(min_length=1, max_length=64)]
    content: str | list[TextPart] | None = None
    name: str | None = None

    def text(self) -> str:
        """The content as one text."""
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content)
        return self.content or ""


class ChatRequest(Generation):
    """Body of /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    tools: list[Any] | None = None
    response_format: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _only_what_is_supported(self) -> Self:
        if self.tools:
            raise ValueError("tools are not supported; leave them out")
        if self.response_format and self.response_format.get("type") != "text":
            raise ValueError("response_format other than {'type': 'text'} is not supported; leave it out")
        if self.num_beams and self.logprobs:
            raise ValueError("logprobs are not told for beams; leave one of them out")
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        if self.max_tokens == 0:
            raise ValueError("max_tokens 0 generates nothing: write at least 1")
        return self


class TokenizeRequest(BaseModel):
    """Body of /tokenize: a prompt, or messages."""

    model_config = ConfigDict(strict=True, extra="ignore")

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)] | None = None
    add_special_tokens: bool = True

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give either prompt or messages")
        return self


class EncodeRequest(BaseModel):
    """What both endpoints of encoders take."""

    model_config = ConfigDict(strict=True, extra="ignore")

    model: str | None = None
    input: str | list[str] | list[int] | list[list[int]]


class EmbeddingsRequest(EncodeRequest):
    """Body of POST /v1/embeddings."""

    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1)] | None = None


class ClassifyRequest(EncodeRequest):
    """Body of POST /classify."""

    top_k: Annotated[int, Field(ge=1)] | None = None
    """Classes to show, likeliest first; left out: all."""
