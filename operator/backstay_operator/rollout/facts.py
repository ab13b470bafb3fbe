"""What the machine concludes from what it sees: one frozen value that every guard and action reads."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from backstay_contract.evidence import AttemptVerdict, VerdictKind
from backstay_contract.metric import MetricName
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.rollout import Promotion, Strategy
from backstay_contract.status import Attempt, Colour, HistoryEntry, ModelDeploymentStatus, Rejection

from backstay_operator.rollout import history, revision
from backstay_operator.rollout.observation import ColourState, Observation, Pod, PodFailure, WatchRound
from backstay_operator.rollout.revision import Wanted


@dataclass(frozen=True)
class Facts:
    """Spec, memory and observation of one pass, and what follows from them. `attempt` is the open one, if any."""

    spec: ModelDeploymentSpec
    status: ModelDeploymentStatus
    observation: Observation
    now: datetime
    asked: Wanted
    """What the spec asks for."""
    aim: Wanted
    """What people want to serve: what the spec asks for, or the revision that rollout.rollbackTo names."""
    wanted: Wanted
    """What shall serve: the aim, or the revision that a slow way back leads to."""
    active_colour: Colour | None
    attempt: Attempt | None
    verdict: AttemptVerdict | None
    """Of the open attempt; at rest, of the watch."""
    previous_verdict: AttemptVerdict | None = None
    """Of the other colour, in the soak."""
    watch: WatchRound | None = None

    @property
    def active(self) -> ColourState | None:
        return None if self.active_colour is None else self.observation.colours[self.active_colour]

    @property
    def switched(self) -> bool:
        """The Service selects the open attempt's colour. The live Service says so, not the memory."""
        return self.attempt is not None and self.active_colour is self.attempt.colour

    @cached_property
    def candidate(self) -> ColourState | None:
        """The colour that the open attempt runs in, before the flip and after it."""
        return None if self.attempt is None else self.observation.colours[self.attempt.colour]

    @cached_property
    def candidate_pods(self) -> tuple[Pod, ...]:
        if self.attempt is None or self.candidate is None:
            return ()
        return tuple(p for p in self.candidate.pods if p.attempt == self.attempt.id and not p.terminating)

    @property
    def candidate_ready(self) -> int:
        return sum(pod.ready for pod in self.candidate_pods)

    @property
    def candidate_wanted(self) -> int:
        return candidate_replicas(self.spec, None if self.recreates else self.active)

    @property
    def recreates(self) -> bool:
        """The active colour goes down before the candidate comes up."""
        recreate = self.spec.rollout.strategy is Strategy.RECREATE
        return recreate and self.active is not None and not self.switched

    @property
    def other(self) -> ColourState | None:
        """The colour that the Service does not select, while it has pods."""
        if self.active_colour is None:
            return None
        other = self.observation.colours[self.active_colour.other]
        return other if other.exists and other.replicas > 0 and other.revision else None

    @property
    def previous(self) -> ColourState | None:
        """The colour to go back to: the other one, while it is kept warm and its attempt was not rejected."""
        if self.attempt is not None and not self.switched:
            return None
        return self.other if self.other is not None and self.rejection_of(self.other) is None else None

    @property
    def previous_ready(self) -> bool:
        """It could take over: half of its pods are ready, or as many as the active colour has."""
        previous, active = self.previous, self.active
        if previous is None or previous.ready == 0:
            return False
        return 2 * previous.ready >= previous.replicas or active is None or previous.ready >= active.ready

    def rejection_of(self, state: ColourState) -> Rejection | None:
        """Why this very attempt of a colour was rejected; None where it was not, or where a retry is asked for."""
        token = self.spec.rollout.retry_token
        return next((r for r in self.status.rejected if r.attempt == state.attempt and r.retry_token == token), None)

    @cached_property
    def failure(self) -> tuple[Pod, PodFailure] | None:
        """The worst failure among the candidate's pods: a hard one before one that may pass."""
        failures = [(pod, pod.failure) for pod in self.candidate_pods if pod.failure is not None]
        return min(failures, key=lambda one: not one[1].hard, default=None)

    @property
    def hard_failure(self) -> bool:
        return self.failure is not None and self.failure[1].hard

    @property
    def rejection(self) -> Rejection | None:
        """Why the digest that is asked for may not be tried; None where it may."""
        token = self.spec.rollout.retry_token
        return next(
            (r for r in self.status.rejected if r.digest == self.wanted.digest and r.retry_token == token), None
        )

    @property
    def wanted_serves(self) -> bool:
        served = self.active is not None and self.active.exists and self.active.revision == self.wanted.revision
        return served or (self.vanished is not None and self.vanished.revision == self.wanted.revision)

    @cached_property
    def vanished(self) -> Wanted | None:
        """What the active Deployment is built from again, where somebody deleted it; None while it is there.

        Also where the spec asks for another revision, even for a rejected one: what serves does not depend on it.
        """
        active, known = self.active, self.status.active
        if active is None or active.exists or known is None or known.colour is not active.colour:
            return None
        if known.revision == self.wanted.revision:
            return self.wanted
        attempt = self.status.attempt
        if attempt is not None and attempt.revision == known.revision and attempt.recipe is not None:
            return Wanted(attempt.revision, attempt.recipe)
        return revision.of_history(self.status.history, known.revision)

    @property
    def returns(self) -> bool:
        """The open attempt is a slow way back: it brings a revision up again that served before."""
        returning = self.status.returning
        return self.attempt is not None and returning is not None and self.attempt.revision == returning.to

    @property
    def degraded(self) -> bool:
        """The answers of the active colour are cut."""
        cut = self.status.degraded
        return cut is not None and self.active is not None and self.active.revision == cut.revision

    @property
    def entry(self) -> HistoryEntry | None:
        """What the history knows of the active colour's revision."""
        return history.entry(self.status, self.active.revision) if self.active is not None else None

    @property
    def unjudged(self) -> bool:
        """The status does not know how the active revision came to serve: it was lost, perhaps in the soak."""
        active, known = self.active, self.status.attempt
        if active is None or not active.digest or not active.attempt or self.observation.flip is None:
            return False
        return (
            self.entry is None and self.rejection_of(active) is None and (known is None or known.id != active.attempt)
        )

    @property
    def something_new_is_asked(self) -> bool:
        """A revision is on its way that does not serve: it goes before what the watch finds."""
        return not (self.wanted_serves or self.rejection is not None or self.paused or self.pin_is_unknown)

    @property
    def left_unrecorded(self) -> ColourState | None:
        """The colour that the last flip left and rejected, where the status does not say so: the pass that flipped was
        killed, or the status was lost."""
        flip = self.observation.flip
        if flip is None or not flip.rejects or any(r.attempt == flip.attempt for r in self.status.rejected):
            return None
        left = self.observation.colours[flip.to.other]
        return left if left.exists and left.attempt == flip.attempt and left.digest else None

    @property
    def free_colour(self) -> Colour | None:
        """The colour that a new attempt may take; None while its pods still finish their requests."""
        colour = Colour.BLUE if self.active_colour is None else self.active_colour.other
        state = self.observation.colours[colour]
        begun = state.exists and state.attempt == self.next_attempt_id
        return colour if state.gone or begun else None

    @property
    def next_attempt_id(self) -> str:
        """Deterministic, so that a pass which is repeated after a crash opens the same attempt."""
        return f"{self.wanted.revision}-{self.status.attempts + 1}"

    @property
    def has_limits(self) -> bool:
        return self.attempt is not None and bool(self.attempt.limits)

    @property
    def pinned(self) -> bool:
        """A person named the revision that shall serve, whatever the rest of the spec asks for."""
        return bool(self.spec.rollout.rollback_to) and self.spec.rollout.rollback_to == self.aim.revision

    @property
    def pin_is_unknown(self) -> bool:
        """A person named a revision that cannot be built."""
        return bool(self.spec.rollout.rollback_to) and not self.pinned

    @property
    def paused(self) -> bool:
        """Nothing may go forward. To bring back a revision that served is no way forward."""
        return is_paused(self.spec, self.asked, self.wanted)

    @property
    def aborted(self) -> bool:
        """A person named the open attempt, for it to end."""
        return self.attempt is not None and self.spec.rollout.abort == self.attempt.id

    @property
    def past_deadline(self) -> bool:
        if self.attempt is None or self.attempt.paused_since is not None:
            return False
        since = self.attempt.progress_since or self.attempt.started_at
        return (self.now - since).total_seconds() > self.spec.rollout.progress_deadline_seconds

    @property
    def smoke_passed(self) -> bool:
        return self.attempt is not None and self.attempt.smoke_passed_at is not None

    @property
    def every_ready_pod_passed(self) -> bool:
        """Every pod of the candidate that is ready now has answered the smoke inference rightly."""
        passed = {answer.pod for answer in self.observation.smoke if answer.passed}
        ready = {pod.name for pod in self.candidate_pods if pod.ready}
        return bool(ready) and ready <= passed

    @property
    def base_taken(self) -> bool:
        """The counters that the soak counts from were read after the smoke inferences, or nothing waits for them: there
        is nothing to judge, or it is a way back, which no metric may keep shut."""
        if self.attempt is None or self.attempt.smoke_passed_at is None:
            return False
        if self.recreates and self.attempt.held_since is not None:
            return True  # nothing serves meanwhile: metrics that are dark keep nothing good up
        if self.returns or all(one.metric is MetricName.PERPLEXITY for one in self.attempt.limits):
            return True
        return bool(self.attempt.evidence) and self.attempt.evidence[0].since >= self.attempt.smoke_passed_at

    @property
    def evaluated(self) -> bool:
        """What the evaluation set says is remembered, or nothing waits for it."""
        return self.returns or (self.attempt is not None and self.attempt.evaluation is not None)

    @property
    def may_promote(self) -> bool:
        """Automatic, or a person named this attempt. A way back waits for nobody."""
        rollout = self.spec.rollout
        named = self.attempt is not None and rollout.promote == self.attempt.id
        return named or self.returns or rollout.promotion is Promotion.AUTOMATIC

    @property
    def held_too_long(self) -> bool:
        if self.attempt is None or self.attempt.held_since is None or self.attempt.paused_since is not None:
            return False
        held = (self.now - self.attempt.held_since).total_seconds()
        return held > self.spec.rollout.soak.hold_timeout_seconds

    @property
    def looked(self) -> bool:
        """What is to be judged was judged in this pass: between two looks nothing is known of it."""
        return self.verdict is not None or not self.has_limits

    def verdict_is(self, *kinds: VerdictKind) -> bool:
        return self.verdict is not None and self.verdict.verdict in kinds

    @property
    def observed_seconds(self) -> float:
        """Seconds of soak that count: with data where something is judged, else since the flip."""
        if self.attempt is None or self.attempt.switched_at is None:
            return 0.0
        if self.has_limits:
            return self.attempt.observed_seconds
        return (self.now - self.attempt.switched_at).total_seconds()


def candidate_replicas(spec: ModelDeploymentSpec, active: ColourState | None) -> int:
    """Pods of a candidate: it must carry at once what the active colour carries, and one to be checked at all."""
    return max(1, spec.replicas, active.replicas if active else 0)


def is_paused(spec: ModelDeploymentSpec, asked: Wanted, wanted: Wanted) -> bool:
    return spec.rollout.paused and wanted.revision == asked.revision
