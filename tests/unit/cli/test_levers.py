"""What people ask of a rollout: abort, rollback, pause, resume; what `--wait` waits for, and the history."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from backstay_cli.commands import changing, cluster_options
from backstay_cli.errors import CliError, Exit
from backstay_cli.main import app
from backstay_cli.resource import ask, revisions, waiting
from backstay_cli.resource.cluster import Cluster
from backstay_contract.resource import parse_spec
from backstay_contract.status import ModelDeploymentStatus, parse_status
from typer.testing import CliRunner

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
RUN = CliRunner(env={"COLUMNS": "200"})
NAMES = ("aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc")


def digest(number: int) -> str:
    return "sha256:" + f"{number}" * 64


def model(number: int) -> dict[str, Any]:
    return {
        "name": "chat",
        "version": f"1.{number}.0",
        "uri": f"s3://models/chat/1.{number}.0",
        "sha256": digest(number),
        "storage": {"endpoint": "http://minio.minio.svc:9000"},
    }


def entry(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "revision": NAMES[number],
        "digest": digest(number),
        "version": f"1.{number}.0",
        "image": "runtime:1",
        "verified": True,
        "reason": "Verified",
        "at": (NOW - timedelta(hours=3 - number)).isoformat(),
        "recipe": {"model": model(number)},
    } | changes


def side(number: int, ready: int = 1) -> dict[str, Any]:
    named = {"colour": "blue", "version": f"1.{number}.0", "digest": digest(number), "revision": NAMES[number]}
    return named | {"ready": ready, "replicas": 1}


def attempt(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"{NAMES[number]}-4",
        "revision": NAMES[number],
        "digest": digest(number),
        "version": f"1.{number}.0",
        "colour": "green",
        "image": "runtime:1",
        "startedAt": NOW.isoformat(),
    } | changes


def rejection(number: int, token: str = "") -> dict[str, Any]:
    named = {"digest": digest(number), "revision": NAMES[number], "version": f"1.{number}.0", "attempt": "x-1"}
    return named | {"reason": "Breach", "at": NOW.isoformat(), "retryToken": token}


def status(**changes: Any) -> ModelDeploymentStatus:
    """Version 1.2.0 serves, at rest; 1.0.0 and 1.1.0 served before it."""
    return parse_status(raw(**changes))


def raw(**changes: Any) -> dict[str, Any]:
    served = [entry(0), entry(1), entry(2)]
    return {"phase": "Serving", "reason": "Verified", "active": side(2), "history": served, "attempts": 3} | changes


def spec(**rollout: Any) -> Any:
    return parse_spec({"model": model(2), "rollout": rollout})


ID = f"{NAMES[2]}-4"
SOAKING = {"phase": "Soaking", "history": [entry(0), entry(1)], "attempt": attempt(2, switchedAt=NOW.isoformat())}
ENDED = {"attempt": attempt(2, endedAt=NOW.isoformat(), outcome="Verified")}


# --- abort -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [None, f"{NAMES[2]}-4"])
def test_an_abort_names_the_open_attempt_and_says_what_will_happen(given: str | None) -> None:
    change = ask.abort(status(**SOAKING), given)
    assert change.patch == {"rollout": {"abort": f"{NAMES[2]}-4"}}
    assert "1.2.0 (222222222222) ends and is rejected, and the Service goes back" in change.said


def test_an_abort_before_the_flip_moves_no_request() -> None:
    assert "goes back" not in ask.abort(status(phase="Starting", attempt=attempt(2)), None).said


@pytest.mark.parametrize(
    ("changes", "given", "word"),
    [({}, None, "backstay rollback"), (ENDED, None, "no attempt is open"), (SOAKING, "other-1", f"{NAMES[2]}-4")],
)
def test_an_abort_that_is_stale_or_senseless_is_refused_with_the_remedy(
    changes: dict[str, Any], given: str | None, word: str
) -> None:
    with pytest.raises(CliError, match=word) as caught:
        ask.abort(status(**changes), given)
    assert caught.value.code is Exit.REFUSED


# --- rollback ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "revision"),
    [(None, NAMES[1]), (NAMES[0], NAMES[0]), ("aaaa", NAMES[0]), ("1.0.0", NAMES[0]), ("1.1.0", NAMES[1])],
)
def test_a_rollback_pins_what_it_names_or_what_served_before(to: str | None, revision: str) -> None:
    change = ask.rollback(spec(), status(**ENDED), to)
    assert change.patch == {"rollout": {"rollbackTo": revision}}
    assert "backstay rollback --clear" in change.said


def test_a_rollback_in_the_soak_names_the_previous_revision() -> None:
    assert ask.rollback(spec(), status(**SOAKING), None).patch == {"rollout": {"rollbackTo": NAMES[1]}}


@pytest.mark.parametrize(
    ("changes", "rollout", "to", "word"),
    [
        ({}, {}, "9.9.9", r"the history has cccccccccccc \(1.2.0\)"),
        ({"history": []}, {}, "9.9.9", "none yet"),
        ({}, {}, "aaa", "no such revision"),
        ({}, {}, "1.2.0", "serves already"),
        ({}, {"rollbackTo": NAMES[0]}, "1.0.0", "already"),
        ({"history": [entry(2)]}, {}, None, "nothing to go back to"),
        ({"history": [entry(0), entry(1, version="1.0.0")]}, {}, "1.0.0", "several revisions"),
        ({"history": [entry(0, recipe=None), entry(2)]}, {}, None, "apply a spec"),
        ({"rejected": [rejection(1)]}, {}, None, "rollout.retryToken"),
    ],
)
def test_a_rollback_that_cannot_be_is_refused_with_the_remedy(
    changes: dict[str, Any], rollout: dict[str, Any], to: str | None, word: str
) -> None:
    with pytest.raises(CliError, match=word) as caught:
        ask.rollback(spec(**rollout), status(**changes), to)
    assert caught.value.code is Exit.REFUSED


def test_a_rejection_of_before_a_retry_stops_no_rollback() -> None:
    assert ask.rollback(spec(retryToken="new"), status(rejected=[rejection(1, "old")]), None).patch


def test_a_pin_is_cleared_only_where_there_is_one() -> None:
    assert ask.clear_rollback(spec(rollbackTo=NAMES[0])).patch == {"rollout": {"rollbackTo": ""}}
    with pytest.raises(CliError, match="empty already"):
        ask.clear_rollback(spec())


# --- pause and resume --------------------------------------------------------------------------------------------


def test_pause_and_resume_change_one_field_each_and_only_once() -> None:
    assert ask.pause(spec()).patch == {"rollout": {"paused": True}}
    assert ask.resume(spec(paused=True)).patch == {"rollout": {"paused": False}}
    with pytest.raises(CliError, match="backstay resume"):
        ask.pause(spec(paused=True))
    with pytest.raises(CliError, match="backstay pause"):
        ask.resume(spec())


def test_a_promotion_of_a_paused_rollout_says_that_the_flip_waits() -> None:
    waits = status(phase="AwaitingPromotion", attempt=attempt(2))
    assert "backstay resume" in ask.promote(spec(promotion="Manual", paused=True), waits, None).said
    with pytest.raises(CliError, match="backstay resume"):
        ask.promote(spec(paused=True), waits, None)


HELD = {"phase": "Held", "reason": "SharedCause", "message": "both colours breach", "attempt": SOAKING["attempt"]}


def test_an_attempt_that_is_held_after_the_flip_is_kept_by_a_promotion() -> None:
    change = ask.promote(spec(), status(**HELD), None)
    assert change.patch == {"rollout": {"promote": ID}}
    assert "is kept, unverified, although both colours breach" in change.said
    with pytest.raises(CliError, match=ID):
        ask.promote(spec(), status(**HELD), "other-1")
    with pytest.raises(CliError, match="Automatic"):
        ask.promote(spec(), status(phase="Held", attempt=attempt(2)), None)


# --- waiting -----------------------------------------------------------------------------------------------------

SWITCHED = attempt(2, switchedAt=NOW.isoformat())
OVER = attempt(2, endedAt=NOW.isoformat())


@pytest.mark.parametrize(
    ("goal", "changes", "done", "failed"),
    [
        (waiting.ended(ID), {"phase": "Soaking", "attempt": SWITCHED}, False, False),
        (waiting.ended(ID), {"phase": "Held", "attempt": SWITCHED}, False, True),
        (waiting.ended(ID), {"phase": "RollingBack", "attempt": OVER}, False, False),
        (waiting.ended(ID), {"attempt": OVER}, True, False),
        (waiting.ended(ID), {}, True, False),
        (waiting.flipped(ID), {"phase": "AwaitingPromotion", "attempt": attempt(2)}, False, False),
        (waiting.flipped(ID), {"phase": "Soaking", "attempt": SWITCHED}, True, False),
        (waiting.flipped(ID), {"attempt": OVER}, False, True),
        (waiting.flipped(ID), {}, False, True),
        (waiting.serves(NAMES[1]), {}, False, False),
        (waiting.serves(NAMES[2]), {}, True, False),
        (waiting.serves(NAMES[2]), {"active": side(2, ready=0)}, False, False),
        (waiting.serves(NAMES[1]), {"rejected": [rejection(1)]}, False, True),
        (waiting.serves(NAMES[1]), {"reason": "RevisionUnknown"}, False, True),
        (waiting.tried_again(digest(2), 3), {"attempt": OVER}, False, False),
        (waiting.tried_again(digest(2), 3), {"attempts": 4, "attempt": attempt(2)}, False, False),
        (waiting.tried_again(digest(2), 3), {"attempts": 4, "attempt": SWITCHED}, True, False),
        (waiting.tried_again(digest(2), 3), {"attempts": 4, "attempt": OVER}, False, True),
        (waiting.kept(ID), {"phase": "Held", "attempt": SWITCHED}, False, False),
        (waiting.kept(ID), {"phase": "RollingBack", "attempt": SWITCHED}, False, True),
        (waiting.kept(ID), {"attempt": OVER}, True, False),
        (waiting.seen, {}, True, False),
    ],
)
def test_a_goal_is_reached_failed_or_on_its_way(
    goal: waiting.Goal, changes: dict[str, Any], done: bool, failed: bool
) -> None:
    progress = goal(status(**changes))
    assert (progress.done, progress.failed) == (done, failed)
    assert progress.line


# --- history -----------------------------------------------------------------------------------------------------


def test_the_history_is_listed_with_the_newest_first_and_what_became_of_each() -> None:
    one = status(history=[entry(0, recipe=None), entry(1, verified=False, reason="NoData"), entry(2)])
    rows = revisions.rows(one, NOW)
    assert [row[0] for row in rows] == [NAMES[2], NAMES[1], NAMES[0]]
    assert rows[1][1:] == ["1.1.0", "1" * 12, "no", "NoData", "2h", "-"]
    assert [row[-1] for row in rows] == ["active", "-", "cannot be built again"]
    assert all(len(row) == len(revisions.COLUMNS) for row in rows)
    said = revisions.as_json(one)
    assert [(each["active"], each["canBeBuilt"]) for each in said] == [(True, True), (False, True), (False, False)]


def test_what_is_warm_or_rejected_is_said() -> None:
    one = status(previous=side(1), rejected=[rejection(0)])
    assert [row[-1] for row in revisions.rows(one, NOW)] == ["active", "previous, kept warm", "rejected"]


# --- the commands ------------------------------------------------------------------------------------------------


class Stored:
    """A cluster with one resource; each read after a change shows the next status."""

    namespace = "prod"

    def __init__(self, *statuses: dict[str, Any], **rollout: Any) -> None:
        self.statuses = list(statuses)
        self.spec: dict[str, Any] = {"model": model(2), "rollout": rollout}
        self.generation = 1
        self.patches: list[Any] = []

    def get(self, name: str, namespace: str) -> dict[str, Any]:
        shown = self.statuses.pop(0) if self.patches and len(self.statuses) > 1 else self.statuses[0]
        metadata = {"name": name, "namespace": namespace, "generation": self.generation, "resourceVersion": "7"}
        return {"metadata": metadata, "spec": self.spec, "status": shown}

    def get_all(self, namespace: str | None) -> list[dict[str, Any]]:
        return [self.get(name, namespace or "prod") for name in ("chat", "cheap", "other")]

    def patch_spec(self, name: str, namespace: str, patch: Any, version: str) -> dict[str, Any]:
        assert version == "7"
        self.patches.append(patch)
        self.generation += 1
        return self.get(name, namespace)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(*statuses: dict[str, Any], **rollout: Any) -> Stored:
        stored = Stored(*statuses, **rollout)
        monkeypatch.setattr(changing, "cluster_of", lambda _: stored)
        monkeypatch.setattr("backstay_cli.commands.history.cluster_of", lambda _: stored)
        monkeypatch.setattr(cluster_options, "cluster_of", lambda _: stored)
        return stored

    monkeypatch.setattr(changing, "POLL_SECONDS", 0)
    return use


def test_a_dry_run_says_what_would_change_and_changes_nothing(cluster: Any) -> None:
    stored = cluster(raw())
    ended = RUN.invoke(app, ["rollback", "chat", "--dry-run", "-o", "json"])
    assert (ended.exit_code, stored.patches) == (0, [])
    assert json.loads(ended.stdout)["spec"] == {"rollout": {"rollbackTo": NAMES[1]}}
    assert "would set rollout.rollbackTo" in ended.stderr


def test_waiting_shows_each_step_once_and_ends_with_what_serves(cluster: Any) -> None:
    old = raw(observedGeneration=1)
    seen = raw(observedGeneration=2, phase="Starting", reason="NewRevision")
    there = raw(observedGeneration=2, phase="Soaking", reason="Promoted", active=side(1))
    stored = cluster(old, old, seen, seen, there)
    ended = RUN.invoke(app, ["rollback", "chat", "--to", "1.1.0", "--wait", "-o", "json"])
    assert ended.exit_code == 0, ended.output
    assert stored.patches == [{"rollout": {"rollbackTo": NAMES[1]}}]
    assert ended.stderr.count("Starting: NewRevision") == 1
    assert json.loads(ended.stdout)["active"] == "1.1.0"


def test_waiting_in_vain_is_refused_and_waiting_too_long_has_a_code_of_its_own(cluster: Any) -> None:
    cluster(raw(), raw(observedGeneration=2, rejected=[rejection(1)]))
    ended = RUN.invoke(app, ["rollback", "chat", "--wait"])
    assert (ended.exit_code, "did not come about" in ended.stderr) == (3, True)
    cluster(raw(observedGeneration=1))
    ended = RUN.invoke(app, ["pause", "chat", "--wait", "--timeout", "0"])
    assert (ended.exit_code, "goes on without this command" in ended.stderr) == (8, True)


@pytest.mark.parametrize("verb", ["abort", "pause", "resume", "rollback", "retry", "promote"])
def test_what_is_refused_changes_nothing(cluster: Any, verb: str) -> None:
    stored = cluster(raw(history=[]), paused=verb == "pause")
    ended = RUN.invoke(app, [verb, "chat"])
    assert (ended.exit_code, stored.patches) == (3, [])
    assert ended.stderr.startswith("error: ")


def test_to_and_clear_exclude_each_other(cluster: Any) -> None:
    cluster(raw())
    assert RUN.invoke(app, ["rollback", "chat", "--to", "1.0.0", "--clear"]).exit_code == 2


def test_the_history_is_a_table_or_json(cluster: Any) -> None:
    cluster(raw())
    text = RUN.invoke(app, ["history", "chat"]).stdout
    assert text.splitlines()[0].split() == list(revisions.COLUMNS)
    assert len(json.loads(RUN.invoke(app, ["history", "chat", "-o", "json"]).stdout)) == 3
    cluster(raw(history=[]))
    assert "no revision has served yet" in RUN.invoke(app, ["history", "chat"]).stderr


class Typed:
    """What the shell's completion knows of the command line so far."""

    def __init__(self, **params: Any) -> None:
        self.params = params


def test_the_shell_completes_names_and_revisions(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(raw())
    assert cluster_options.names(Typed(), "ch") == ["chat", "cheap"]  # type: ignore[arg-type]
    assert cluster_options.revisions(Typed(name="chat"), "b") == [(NAMES[1], "1.1.0")]  # type: ignore[arg-type]
    monkeypatch.setattr(cluster_options, "cluster_of", Cluster)
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert cluster_options.names(Typed(), "") == []  # type: ignore[arg-type]
