"""What all endpoints share: which model, how far it is, in which mode."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from backstay_contract.metric import MetricName
from backstay_contract.mode import Mode
from backstay_contract.output import OutputRule

from backstay_runtime.api import errors
from backstay_runtime.encoding import EncoderLoop
from backstay_runtime.identity import Identity
from backstay_runtime.loop import EngineLoop
from backstay_runtime.telemetry.metrics import Metrics, together
from backstay_runtime.text.pieces import PieceTokenizer
from backstay_runtime.text.template import ChatTemplate
from backstay_runtime.text.tokenizer import Tokenizer

DEGRADED_MAX_TOKENS = 128


def nothing() -> None:
    """Holds nothing."""


@dataclass(frozen=True, slots=True)
class Served:
    """Which model answers, and where its answers are counted."""

    identity: Identity
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that can be asked."""

    loop: EngineLoop
    tokenizer: Tokenizer
    template: ChatTemplate | None
    vocabulary: int
    max_model_len: int
    created: int
    """Unix seconds of loading."""
    eos: frozenset[int] = frozenset()
    """Tokens that end a text."""
    served: Served | None = None
    """Of a model that was swapped in; None: what the process began with."""
    close: Callable[[], None] = nothing
    """Ends what it holds beside its thread, after that has ended."""


@dataclass(frozen=True, slots=True)
class Encoder:
    """An encoder that can be asked."""

    loop: EncoderLoop
    tokenizer: PieceTokenizer
    vocabulary: int
    width: int
    """Numbers that each text becomes."""
    labels: tuple[str, ...]
    """Of the classes; empty where texts become vectors."""
    created: int
    """Unix seconds of loading."""


class Service:
    """The state of one serving process. Changed on the event loop only."""

    def __init__(
        self,
        identity: Identity,
        metrics: Metrics,
        *,
        runtime_version: str,
        limits: Mapping[MetricName, float] | None = None,
        rules: tuple[OutputRule, ...] = (),
    ) -> None:
        self.served = self._first = Served(identity, metrics)
        self.limits = dict(limits or {})
        """What the model is judged by, in each metric's unit: the resource's, else the manifest's."""
        self.rules = rules
        """What answers are held against."""
        metrics.show_rules(rules)
        self.runtime_version = runtime_version
        self.loaded: Loaded | None = None
        self.retiring: list[Loaded] = []
        """Models that finish what they began and get nothing new."""
        self.encoder: Encoder | None = None
        """Instead of `loaded`, where the model generates no text."""
        self.in_flight = 0
        self.terminating = False
        """SIGTERM came."""
        self.refusing = False
        """New work is turned away: the end is near."""
        self._mode = Mode.NORMAL
        self._told: list[Callable[[Mode], None]] = []

    def when_mode_changes(self, tell: Callable[[Mode], None]) -> None:
        """Calls `tell` with each new mode."""
        self._told.append(tell)

    @property
    def identity(self) -> Identity:
        """Of the model that answers new requests."""
        return self.served.identity

    @property
    def metrics(self) -> Metrics:
        """Of the model that answers new requests."""
        return self.served.metrics

    def served_by(self, loaded: Loaded) -> Served:
        """Which model this one is."""
        return loaded.served or self._first

    def replace(self, loaded: Loaded, served: Served, limits: Mapping[MetricName, float]) -> Loaded | None:
        """From now on the new model answers what comes in; returns the old one, which finishes what it has begun."""
        before, old = self.loaded, self.served
        served.metrics.show_rules(self.rules)
        served.metrics.set_mode(self.mode)
        served.metrics.in_flight.set(self.in_flight)
        self.loaded, self.served, self.limits = loaded, served, dict(limits)
        old.metrics.in_flight.set(0)
        if before is not None:
            self.retiring.append(before)
        return before

    def exposition(self) -> bytes:
        """The text that Prometheus scrapes: the present model's series, and those of models that finish."""
        return together([self.metrics, *(self.served_by(old).metrics for old in self.retiring)])

    @property
    def mode(self) -> Mode:
        """The mode asked for by the control port; DRAINING once the process is told to end."""
        return Mode.DRAINING if self.terminating else self._mode

    def set_mode(self, mode: Mode) -> None:
        """Changes the mode."""
        before, self._mode = self.mode, mode
        self._changed(before)

    def terminate(self) -> None:
        """Not ready from now on, and for good."""
        before, self.terminating = self.mode, True
        self._changed(before)

    def _changed(self, before: Mode) -> None:
        self.metrics.set_mode(self.mode)
        if self.mode is not before:
            for tell in self._told:
                tell(self.mode)

    def need(self) -> Loaded:
        """The loaded model. Raises ApiError 503 while there is none, or when new work is turned away."""
        if self.refusing:
            raise errors.draining()
        if self.encoder is not None:
            other = "/classify" if self.encoder.labels else "/v1/embeddings"
            raise errors.invalid(f"this model generates no text: ask {other}", code="wrong_task")
        if self.loaded is None:
            raise errors.loading()
        return self.loaded

    def need_encoder(self, what: str) -> Encoder:
        """The loaded encoder, of which `what` is asked. Raises ApiError as `need` does."""
        if self.refusing:
            raise errors.draining()
        if self.loaded is not None:
            raise errors.invalid(f"this model generates text and gives no {what}", code="wrong_task")
        if self.encoder is None:
            raise errors.loading()
        return self.encoder

    def check_model(self, asked: str | None) -> None:
        """Raises ApiError 404 for another model than the one served. None asks for whatever is served."""
        if asked is not None and asked != self.identity.name:
            raise errors.ApiError(
                404,
                f"model {asked!r} is not served here; this server has {self.identity.name!r}",
                code="model_not_found",
                param="model",
            )

    def begin(self) -> None:
        """A generating request came in."""
        self.in_flight += 1
        self.metrics.in_flight.set(self.in_flight)

    def end(self) -> None:
        """It is answered, or gone."""
        self.in_flight -= 1
        self.metrics.in_flight.set(self.in_flight)
