"""Whatever people, pods and metrics do: what always holds of the machine."""

from typing import Any

from backstay_contract.reasons import Reason
from backstay_contract.status import MAX_HISTORY, MAX_REJECTED, Colour, ModelDeploymentStatus, Phase
from backstay_operator.rollout.observation import FiringAlert, PodFailure
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from .world import World, digest

LETTERS = st.sampled_from("abcd")
WATCH = {"intervalSeconds": 1, "roundSeconds": 30}


class AnyDay(RuleBasedStateMachine):
    """Random days of a resource's life."""

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.token = ""
        self.rollback: dict[str, Any] = {"watch": WATCH}
        self.asked_for: set[tuple[str, str]] = set()
        self.ask("a", 1)

    @rule(letter=LETTERS, replicas=st.integers(0, 3))
    def ask(self, letter: str, replicas: int) -> None:
        self.world.ask(letter, replicas=replicas, rollout={"retryToken": self.token}, rollback=self.rollback)

    @rule(token=st.sampled_from("123"))
    def retry(self, token: str) -> None:
        self.token = token
        letter = self.world.spec.model.sha256[-1]
        self.world.ask(letter, rollout={"retryToken": token})

    @rule(letter=LETTERS, slow=st.sampled_from([0.0, 0.0, 0.3, 1.0]), seconds=st.sampled_from([0.5, 2.0, 500.0]))
    def behave(self, letter: str, slow: float, seconds: float) -> None:
        model = self.world.model(letter)
        model.slow, model.seconds_to_ready = slow, seconds

    @rule(letter=LETTERS, hard=st.booleans(), broken=st.booleans())
    def break_pods(self, letter: str, hard: bool, broken: bool) -> None:
        failure = PodFailure(Reason.DIGEST_MISMATCH if hard else Reason.STORAGE_UNREACHABLE, "said", hard)
        self.world.model(letter).failure = failure if broken else None

    @rule(letter=LETTERS, smoke=st.sampled_from(["passes", "wrong", "hangs"]))
    def change_smoke(self, letter: str, smoke: str) -> None:
        self.world.model(letter).smoke = smoke

    @rule(answer=st.booleans(), room=st.booleans(), load=st.sampled_from([0, 1, 200]))
    def change_surroundings(self, answer: bool, room: bool, load: int) -> None:
        self.world.metrics_answer, self.world.room, self.world.requests_per_second = answer, room, load

    @rule(letter=LETTERS, paused=st.booleans(), abort=st.booleans(), back=st.booleans(), recreate=st.booleans())
    def pull_levers(self, letter: str, paused: bool, abort: bool, back: bool, recreate: bool) -> None:
        rollout = {"retryToken": self.token, "paused": paused, "strategy": "Recreate" if recreate else "BlueGreen"}
        attempt, history = self.world.status.attempt, self.world.status.history
        if abort and attempt is not None:
            rollout["abort"] = attempt.id
        if back and history:
            rollout["rollbackTo"] = history[0].revision
        self.world.ask(letter, rollout=rollout)

    @rule(slots=st.none() | st.integers(0, 6), listed=st.booleans())
    def change_nodes(self, slots: int | None, listed: bool) -> None:
        self.world.slots, self.world.nodes_may_be_listed = slots, listed

    @rule(
        rules=st.lists(
            st.fixed_dictionaries(
                {
                    "on": st.sampled_from(["p99LatencyMs", "Alert", "HardwareMismatch"]),
                    "do": st.sampled_from(["Rollback", "Degrade", "Hold"]),
                    "to": st.sampled_from(["Previous", "LastVerified"]),
                    "mode": st.sampled_from(["Normal", "Degraded"]),
                }
            ),
            max_size=2,
        ),
        after=st.sampled_from(["Rollback", "Rollback", "Degrade", "Hold", "Ignore"]),
        letter=LETTERS,
    )
    def change_the_tree(self, rules: list[dict[str, str]], after: str, letter: str) -> None:
        self.rollback = {"rules": rules, "afterVerified": after, "watch": WATCH}
        self.ask(letter, 1)

    @rule(letter=LETTERS, fires=st.booleans(), kept_alive=st.sampled_from([0.0, 0.2]))
    def alert(self, letter: str, fires: bool, kept_alive: float) -> None:
        told = FiringAlert("f1", "Bad", digest(letter), "answers are rude", self.world.now)
        self.world.alerts, self.world.kept_alive = (told,) if fires else (), kept_alive

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @rule(colour=st.sampled_from(list(Colour)))
    def delete_deployment_by_hand(self, colour: Colour) -> None:
        self.world.deployments.pop(colour, None)

    @rule()
    def wipe_status(self) -> None:
        self.world.status = ModelDeploymentStatus()

    @rule(colour=st.sampled_from(list(Colour)))
    def change_selector_by_hand(self, colour: Colour) -> None:
        if self.world.selector is not None and colour in self.world.deployments:
            self.world.selector = colour

    @rule(seconds=st.sampled_from([1, 3, 10, 90]), die_in=st.none() | st.integers(1, 6))
    def pass_time(self, seconds: int, die_in: int | None) -> None:
        if die_in is not None:
            self.world.die_at = self.world.writes + die_in
        self.world.run(seconds)

    @invariant()
    def the_selector_is_never_emptied(self) -> None:
        selected = [colour is not None for colour in self.world.selectors]
        assert selected == sorted(selected)

    @invariant()
    def a_rejected_digest_has_no_pods_unless_it_is_asked_for_again(self) -> None:
        world = self.world
        if not world.passes:
            return
        last, token = world.passes[-1], world.spec.rollout.retry_token
        refused = {r.digest for r in last.status.rejected if r.retry_token == token}
        for colour, plan in last.colours.items():
            if plan.build is not None and colour is not last.selector:
                assert plan.build.digest not in refused

    @invariant()
    def what_serves_unverified_is_never_called_verified(self) -> None:
        for condition in self.world.status.conditions:
            if condition.type == "Verified" and condition.status == "True":
                active = self.world.status.active
                assert any(h.verified and active and h.revision == active.revision for h in self.world.status.history)

    @invariant()
    def ready_is_never_true_without_a_ready_endpoint(self) -> None:
        status = self.world.status
        ready = next((c.status for c in status.conditions if c.type == "Ready"), "False")
        assert (ready == "True") == (status.ready_replicas > 0)

    @invariant()
    def no_flip_goes_to_a_colour_without_ready_pods(self) -> None:
        assert all(ready > 0 for ready in self.world.flipped_to)

    @invariant()
    def no_soak_stays_on_dead_pods_beside_living_ones(self) -> None:
        assert self.world.stranded == 0

    @invariant()
    def memory_is_bounded(self) -> None:
        assert len(self.world.status.rejected) <= MAX_REJECTED
        assert len(self.world.status.history) <= MAX_HISTORY

    def teardown(self) -> None:
        """Left alone with good models and metrics, the machine comes to rest with one colour up; a fix gets in."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.metrics_answer, world.room, world.requests_per_second = True, True, 200
        world.slots, world.nodes_may_be_listed, world.alerts, world.kept_alive = None, True, (), 0.0
        world.spec = world.spec.with_(rollout=world.spec.rollout.with_(paused=False, rollback_to="", abort=""))
        for letter in "abcd":
            model = world.model(letter)
            model.slow, model.seconds_to_ready, model.failure, model.smoke = 0.0, 0.5, None, "passes"
        world.run(240)
        if world.status.phase is Phase.HELD:
            # A breach stays proven, however good the model has become since: only another revision ends such a hold.
            world.ask("e")
            world.run(240)
        up = [colour for colour, live in world.deployments.items() if live.replicas > 0]
        assert len(up) <= 1
        assert world.status.phase in (Phase.SERVING, Phase.FAILED), world.status.message
        assert world.passes[-1].look_again is None
        assert world.status.returning is None or world.live_digest() != world.status.returning.to
        before = world.writes
        world.run(60)
        assert world.writes == before, "something is written at rest"


TestAnyDay = AnyDay.TestCase
TestAnyDay.settings = settings(
    max_examples=60, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
