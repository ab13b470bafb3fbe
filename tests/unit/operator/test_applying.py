import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from backstay_contract.names import Annotation, Label
from backstay_contract.reasons import Reason
from backstay_contract.resource import Model, Storage, parse_spec
from backstay_contract.serving import Serving
from backstay_contract.status import Colour, ModelDeploymentStatus, Notice, Recipe
from backstay_operator import kinds
from backstay_operator import resource as resources
from backstay_operator.apply import events, modes, services
from backstay_operator.apply.apply import Applied, apply
from backstay_operator.client import ApiError
from backstay_operator.desired import flip_record
from backstay_operator.desired.common import FLIP, Owner
from backstay_operator.desired.services import selected
from backstay_operator.http import Answer, HttpError
from backstay_operator.notify import notices
from backstay_operator.observe import children as reading
from backstay_operator.observe import colours
from backstay_operator.observe.observe import Seen
from backstay_operator.rollout.decision import ColourPlan, Decision, Event, Flip
from backstay_operator.rollout.observation import ColourState, FlipRecord, Observation, Pod
from backstay_operator.rollout.revision import Wanted

Json = dict[str, Any]
BLUE, GREEN = Colour.BLUE, Colour.GREEN
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = b"0123456789abcdef"
OWNER = Owner("prod", "chat", "uid-1")
DIGEST = "sha256:" + "ab" * 32
RECIPE = Recipe(
    model=Model(
        name="chat",
        version="1.0.0",
        uri="s3://models/chat/1",
        sha256=DIGEST,
        storage=Storage(endpoint="http://minio.minio.svc:9000"),
    ),
    serving=Serving(image="runtime:1"),
)
BUILD = Wanted("0123456789ab", RECIPE)
RECORD = FlipRecord(BLUE, "0123456789ab-1", "Promoted", NOON)


def decision(
    selector: Colour | None = None,
    preview: Colour | None = None,
    flip: Flip | None = None,
    **plans: ColourPlan,
) -> Decision:
    return Decision(
        status=ModelDeploymentStatus(),
        selector=selector,
        preview=preview,
        colours={colour: plans.get(colour, ColourPlan(0)) for colour in Colour},
        reason=Reason.SERVING,
        sentence="as told",
        flip=flip,
    )


async def carry_out(api: Any, http: Any, what: Decision, states: Any = None) -> Applied:
    body = await api.get(kinds.MODEL_DEPLOYMENT, "prod", "chat")
    resource = resources.read(body)
    children = await reading.read(api, resource.owner)
    seen = {colour: colours.state_of(colour, "chat", children, NOON) for colour in Colour} | (states or {})
    spec = parse_spec(body["spec"])
    return await apply(api, http, KEY, resource, spec, what, Seen(Observation(seen), children))


BUILT = ColourPlan(2, build=BUILD, attempt="0123456789ab-1")


async def test_the_first_pass_makes_every_child(api: Any, http: Any, stored: Json) -> None:
    applied = await carry_out(api, http, decision(preview=BLUE, blue=BUILT))
    assert api.writes == [
        ("create", "Service", "chat"),
        ("create", "Service", "chat-preview"),
        ("apply", "Deployment", "chat-blue"),
        ("patch", "Service", "chat-preview"),
    ]
    assert applied.changed
    assert selected(api.objects[kinds.SERVICE, "prod", "chat"]) is None
    assert selected(api.objects[kinds.SERVICE, "prod", "chat-preview"]) is BLUE


@pytest.mark.case("T24")
async def test_a_child_of_ours_that_came_up_meanwhile_is_as_good_as_one_made_now(
    api: Any, http: Any, stored: Json
) -> None:
    await carry_out(api, http, decision(preview=BLUE, blue=BUILT))
    api.writes.clear()
    body, resource = api.objects, resources.read(stored)
    seen = Seen(Observation({colour: ColourState(colour) for colour in Colour}), reading.Children())
    applied = await apply(api, http, KEY, resource, parse_spec(stored["spec"]), decision(blue=BUILT), seen)
    assert applied.changed
    assert {kind.name for kind, _, _ in body} == {"ModelDeployment", "Service", "Deployment"}


@pytest.mark.case("T24")
async def test_a_child_that_goes_while_it_is_made_calls_for_another_try_and_blames_nobody(
    api: Any, http: Any, stored: Json
) -> None:
    api.fail = lambda verb, kind, _: (
        ApiError(409, "AlreadyExists", "there was one", "fake") if (verb, kind) == ("create", kinds.SERVICE) else None
    )
    with pytest.raises(ApiError) as error:
        await carry_out(api, http, decision(blue=BUILT))
    assert error.value.conflict


async def test_a_pass_in_which_all_is_as_decided_writes_nothing(api: Any, http: Any, stored: Json) -> None:
    await carry_out(api, http, decision(preview=BLUE, blue=BUILT))
    api.writes.clear()
    applied = await carry_out(api, http, decision(preview=BLUE, blue=ColourPlan(2)))
    assert (api.writes, applied.changed) == ([], False)


@pytest.fixture
async def tried(api: Any, http: Any, stored: Json) -> None:
    """Blue was brought up and not flipped to."""
    await carry_out(api, http, decision(preview=BLUE, blue=BUILT))
    api.writes.clear()


async def test_the_flip_moves_the_selector_and_leaves_its_record_in_the_same_write(
    api: Any, http: Any, tried: None
) -> None:
    what = decision(BLUE, flip=Flip(None, RECORD), blue=ColourPlan(2))
    applied = await carry_out(api, http, what)
    service = api.objects[kinds.SERVICE, "prod", "chat"]
    assert applied.flipped
    assert service["spec"]["selector"] == {Label.RESOURCE: "chat", Label.COLOUR: "blue"}
    assert flip_record.read(service["metadata"]["annotations"][FLIP]) == RECORD
    assert api.writes == [("patch", "Service", "chat"), ("patch", "Service", "chat-preview")]


async def test_the_flip_keeps_other_annotations(api: Any, http: Any, tried: None) -> None:
    api.objects[kinds.SERVICE, "prod", "chat"]["metadata"]["annotations"] = {"team": "a"}
    await carry_out(api, http, decision(BLUE, flip=Flip(None, RECORD), blue=ColourPlan(2)))
    assert api.objects[kinds.SERVICE, "prod", "chat"]["metadata"]["annotations"].keys() == {"team", FLIP}


async def test_a_flip_from_another_colour_than_expected_is_refused_and_changes_nothing(
    api: Any, http: Any, tried: None
) -> None:
    with pytest.raises(ApiError) as error:
        await carry_out(api, http, decision(BLUE, flip=Flip(GREEN, RECORD), blue=ColourPlan(2)))
    assert error.value.conflict
    assert selected(api.objects[kinds.SERVICE, "prod", "chat"]) is None


@pytest.mark.parametrize("selector", [{"app": "mine"}, {Label.RESOURCE: "chat", Label.COLOUR: "purple"}, {}, None])
async def test_a_selector_that_somebody_made_unreadable_does_not_keep_the_way_back_shut(
    api: Any, http: Any, serving: None, selector: Any
) -> None:
    api.objects[kinds.SERVICE, "prod", "chat"]["spec"]["selector"] = selector
    back = FlipRecord(GREEN, "0123456789ab-2", "Breach", NOON)
    await carry_out(api, http, decision(GREEN, flip=Flip(None, back), blue=ColourPlan(2)))
    found = api.objects[kinds.SERVICE, "prod", "chat"]["spec"]["selector"]
    assert found == {Label.RESOURCE: "chat", Label.COLOUR: "green"}


async def test_a_selector_that_changed_since_it_was_read_is_not_flipped(api: Any, http: Any, serving: None) -> None:
    read = await api.get(kinds.SERVICE, "prod", "chat")
    api.objects[kinds.SERVICE, "prod", "chat"]["spec"]["selector"] = {"app": "mine"}
    back = FlipRecord(GREEN, "0123456789ab-2", "Breach", NOON)
    with pytest.raises(ApiError) as error:
        await services.flip(api, OWNER, read, Flip(BLUE, back))
    assert error.value.conflict


@pytest.mark.parametrize(("verb", "kind"), [("patch", kinds.DEPLOYMENT), ("create", kinds.SERVICE)])
async def test_what_is_refused_to_another_object_does_not_keep_the_way_back_shut(
    api: Any, http: Any, serving: None, verb: str, kind: Any
) -> None:
    del api.objects[kinds.SERVICE, "prod", "chat-preview"]
    api.fail = lambda of, what, _: ApiError(403, "Forbidden", "by policy", "f") if (of, what) == (verb, kind) else None
    back = FlipRecord(GREEN, "0123456789ab-2", "Breach", NOON)
    with pytest.raises(ApiError):
        await carry_out(api, http, decision(GREEN, flip=Flip(BLUE, back), blue=ColourPlan(5)))
    assert selected(api.objects[kinds.SERVICE, "prod", "chat"]) is GREEN


async def test_a_flip_that_does_not_stick_is_an_error(api: Any, monkeypatch: pytest.MonkeyPatch, tried: None) -> None:
    async def unchanged(*_: Any) -> Json:
        return {"spec": {"selector": {}}}

    monkeypatch.setattr(api, "json_patch", unchanged)
    with pytest.raises(services.FlipNotDoneError):
        await services.flip(api, OWNER, api.objects[kinds.SERVICE, "prod", "chat"], Flip(None, RECORD))


@pytest.fixture
async def serving(api: Any, http: Any, tried: None) -> None:
    """Blue serves."""
    await carry_out(api, http, decision(BLUE, flip=Flip(None, RECORD), blue=ColourPlan(2)))
    api.writes.clear()


@pytest.mark.parametrize(
    "selector", [{Label.RESOURCE: "chat", Label.COLOUR: "green"}, {"app": "mine"}, {Label.COLOUR: "blue"}, None]
)
@pytest.mark.case("R20")
async def test_a_selector_that_somebody_changed_is_put_back_whole_and_told(
    api: Any, http: Any, serving: None, selector: Any
) -> None:
    api.objects[kinds.SERVICE, "prod", "chat"]["spec"]["selector"] = selector
    applied = await carry_out(api, http, decision(BLUE, blue=ColourPlan(2)))
    found = api.objects[kinds.SERVICE, "prod", "chat"]["spec"]["selector"]
    assert found == {Label.RESOURCE: "chat", Label.COLOUR: "blue"}
    (event,) = applied.events
    assert (event.reason, event.warning) == (Reason.SELECTOR_RESTORED, True)


async def test_a_deleted_service_comes_back_with_its_colour_in_one_write(api: Any, http: Any, serving: None) -> None:
    del api.objects[kinds.SERVICE, "prod", "chat"]
    applied = await carry_out(api, http, decision(BLUE, blue=ColourPlan(2)))
    assert api.writes == [("create", "Service", "chat")]
    assert selected(api.objects[kinds.SERVICE, "prod", "chat"]) is BLUE
    assert applied.events == ()


async def test_scaling_leaves_the_template_exactly_as_it_is(api: Any, http: Any, serving: None) -> None:
    before = api.objects[kinds.DEPLOYMENT, "prod", "chat-blue"]["spec"]["template"]
    await carry_out(api, http, decision(BLUE, blue=ColourPlan(5)))
    after = api.objects[kinds.DEPLOYMENT, "prod", "chat-blue"]["spec"]
    assert (after["replicas"], after["template"]) == (5, before)
    assert api.writes == [("patch", "Deployment", "chat-blue")]


async def test_a_deployment_that_does_not_exist_is_not_scaled(api: Any, http: Any, serving: None) -> None:
    await carry_out(api, http, decision(BLUE, blue=ColourPlan(2), green=ColourPlan(3)))
    assert api.writes == []


async def test_another_deployment_of_the_same_name_is_not_scaled(api: Any, http: Any, serving: None) -> None:
    body = await api.get(kinds.MODEL_DEPLOYMENT, "prod", "chat")
    resource = resources.read(body)
    children = await reading.read(api, resource.owner)
    api.objects[kinds.DEPLOYMENT, "prod", "chat-blue"]["metadata"]["uid"] = "another"
    spec = parse_spec(body["spec"])
    seen = Seen(Observation({colour: ColourState(colour) for colour in Colour}), children)
    with pytest.raises(ApiError) as error:
        await apply(api, http, KEY, resource, spec, decision(BLUE, blue=ColourPlan(5)), seen)
    assert error.value.conflict


async def test_a_deployment_that_waits_for_pods_which_never_end_is_deleted_and_built_by_the_next_pass(
    api: Any, http: Any, serving: None
) -> None:
    plan = ColourPlan(2, build=BUILD, attempt="0123456789ab-2", anew=True)
    await carry_out(api, http, decision(BLUE, preview=GREEN, blue=ColourPlan(2), green=BUILT))
    api.writes.clear()
    await carry_out(api, http, decision(BLUE, preview=GREEN, blue=ColourPlan(2), green=plan))
    assert ("delete", "Deployment", "chat-green") in api.writes
    assert (kinds.DEPLOYMENT, "prod", "chat-green") not in api.objects
    await carry_out(api, http, decision(BLUE, preview=GREEN, blue=ColourPlan(2), green=plan))
    rendered = api.objects[kinds.DEPLOYMENT, "prod", "chat-green"]
    assert rendered["metadata"]["annotations"][Annotation.ATTEMPT] == "0123456789ab-2"


async def test_a_new_attempt_renders_the_deployment_anew(api: Any, http: Any, serving: None) -> None:
    plan = ColourPlan(
        2, build=replace(BUILD, recipe=RECIPE.with_(serving=Serving(image="runtime:2"))), attempt="0123456789ab-2"
    )
    await carry_out(api, http, decision(BLUE, preview=GREEN, blue=ColourPlan(2), green=plan))
    rendered = api.objects[kinds.DEPLOYMENT, "prod", "chat-green"]
    assert rendered["metadata"]["annotations"][Annotation.ATTEMPT] == "0123456789ab-2"
    assert rendered["spec"]["template"]["spec"]["containers"][0]["image"] == "runtime:2"


# --- modes -------------------------------------------------------------------------------------------------------


def pod(name: str, mode: str | None, *, terminating: bool = False) -> Pod:
    return Pod(name, "r", "r-1", ready=True, ip="10.0.0.1", mode=mode, terminating=terminating)


def test_only_pods_that_gave_another_mode_are_changed() -> None:
    pods = (
        pod("same", "standby"),
        pod("other", "normal"),
        pod("silent", None),
        pod("going", "normal", terminating=True),
    )
    states = {BLUE: ColourState(BLUE, pods=pods), GREEN: ColourState(GREEN, pods=(pod("left", "normal"),))}
    plans = {BLUE: ColourPlan(1, mode="standby"), GREEN: ColourPlan(1)}
    assert [(one.name, mode) for one, mode in modes.changes(states, plans)] == [("other", "standby")]


async def test_modes_are_set_with_the_token_and_after_the_flip(api: Any, http: Any, serving: None) -> None:
    http.answer("PUT", "/control/mode$", Answer(200, {}, b"{}"))
    back = FlipRecord(GREEN, "x-2", "Breach", NOON)
    what = decision(GREEN, flip=Flip(BLUE, back), blue=ColourPlan(2, mode="standby"))
    applied = await carry_out(api, http, what, {BLUE: ColourState(BLUE, pods=(pod("a", "normal"),))})
    ((method, url, given),) = http.requests
    assert (method, url, given["body"]) == ("PUT", "http://10.0.0.1:8081/control/mode", {"mode": "standby"})
    assert given["headers"]["Authorization"].startswith("Bearer ")
    assert (applied.flipped, applied.problems) == (True, ())


@pytest.mark.parametrize("answer", [Answer(500, {}, b""), HttpError("no answer within 2 s")])
async def test_a_mode_that_cannot_be_set_is_a_problem_and_no_error(
    api: Any, http: Any, serving: None, answer: Any
) -> None:
    http.answer("PUT", "/control/mode$", answer)
    what = decision(BLUE, blue=ColourPlan(2, mode="standby"))
    applied = await carry_out(api, http, what, {BLUE: ColourState(BLUE, pods=(pod("a", "normal"),))})
    assert [problem[:21] for problem in applied.problems] == ["pod a: mode standby: "[:21]]


# --- events ------------------------------------------------------------------------------------------------------


def notice(event: Event) -> Notice:
    return notices.of(event, ModelDeploymentStatus(), NOON)


@pytest.mark.case("R82")
async def test_an_event_is_told_once_for_the_same_id(api: Any) -> None:
    event = Event("rev-1.serving.verified", Reason.VERIFIED, "1.0.0 serves")
    written = await events.tell(api, OWNER, notice(event), "operator-0")
    assert written is not None
    assert await events.tell(api, OWNER, notice(event), "operator-1") is None
    other = await events.tell(api, OWNER, notice(replace(event, id="rev-2.serving.verified")), "operator-1")
    assert other is not None
    assert other["metadata"]["name"] != written["metadata"]["name"]


def test_an_event_names_the_resource_and_says_its_reason() -> None:
    body = events.body(OWNER, notice(Event("x", Reason.BREACH, "é" * 2000, warning=True)), "operator-0")
    assert body["regarding"]["name"] == "chat"
    assert (body["reason"], body["type"], len(body["note"])) == ("Breach", "Warning", 1024)
    assert body["eventTime"] == "2026-01-01T12:00:00.000000Z"
    assert json.loads(body["metadata"]["annotations"][Annotation.NOTICE])["reason"] == "Breach"


async def test_another_refusal_than_a_repetition_is_an_error(api: Any) -> None:
    api.fail = lambda verb, kind, name: ApiError(403, "Forbidden", "no", "fake") if verb == "create" else None
    with pytest.raises(ApiError):
        await events.tell(api, OWNER, notice(Event("x", Reason.BREACH, "m")), "operator-0")
