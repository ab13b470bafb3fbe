"""The decision tree of the way back: the rules' order, and what no rule speaks of."""

import pytest
from backstay_contract.metric import MetricName
from backstay_contract.reasons import Reason
from backstay_contract.resource import parse_spec
from backstay_contract.rollback import DEFAULT_RULES, Action, ModeThere, Rule, Target, Trigger
from backstay_operator.rollout.way_back.tree import Answer, Trouble, answer
from hypothesis import given
from hypothesis import strategies as st

from .world import spec

RULES = st.lists(
    st.builds(
        Rule,
        on=st.sampled_from(Trigger),
        do=st.sampled_from(Action),
        to=st.sampled_from(Target),
        mode=st.sampled_from(ModeThere),
    ),
    max_size=16,
).map(tuple)
TROUBLES = st.lists(
    st.builds(Trouble, st.sampled_from(Reason), st.text(max_size=5), st.none() | st.sampled_from(Trigger)), max_size=5
).map(tuple)


@given(RULES)
def test_without_trouble_nothing_is_done(rules: tuple[Rule, ...]) -> None:
    assert answer(rules, ()) is None


@given(RULES, TROUBLES)
def test_every_answer_is_a_rules_or_the_plain_way_back(rules: tuple[Rule, ...], troubles: tuple[Trouble, ...]) -> None:
    said = answer(rules, troubles)
    assert (said is None) == (not troubles)
    if said is None:
        return
    assert said.trouble in troubles
    by_rule = any((r.on, r.do, r.to, r.mode) == (said.trouble.trigger, said.do, said.to, said.mode) for r in rules)
    assert by_rule or said == Answer(said.trouble)


@given(RULES, TROUBLES.filter(lambda troubles: not any(t.hard for t in troubles)))
def test_the_first_rule_in_the_list_whose_trouble_is_there_decides(
    rules: tuple[Rule, ...], troubles: tuple[Trouble, ...]
) -> None:
    present = {trouble.trigger for trouble in troubles}
    first = next((rule for rule in rules if rule.on in present), None)
    said = answer(rules, troubles)
    if first is not None:
        assert said is not None
        assert (said.trouble.trigger, said.do, said.to, said.mode) == (first.on, first.do, first.to, first.mode)


@given(RULES, TROUBLES.filter(bool))
def test_a_trouble_without_a_rule_goes_back_to_the_previous_revision_as_it_was(
    rules: tuple[Rule, ...], troubles: tuple[Trouble, ...]
) -> None:
    silent = tuple(rule for rule in rules if all(t.trigger is not rule.on for t in troubles))
    said = answer(silent, troubles)
    assert said is not None
    assert (said.do, said.to, said.mode) == (Action.ROLLBACK, Target.PREVIOUS, ModeThere.NORMAL)


@given(RULES, TROUBLES)
def test_what_died_is_never_stayed_on(rules: tuple[Rule, ...], troubles: tuple[Trouble, ...]) -> None:
    died = Trouble(Reason.OOM_KILLED, "killed for memory")
    said = answer(rules, (*troubles, died))
    assert said is not None
    assert said.do is Action.ROLLBACK


@given(RULES, TROUBLES)
def test_a_rule_about_a_trouble_that_is_not_there_changes_nothing(
    rules: tuple[Rule, ...], troubles: tuple[Trouble, ...]
) -> None:
    absent = set(Trigger) - {trouble.trigger for trouble in troubles}
    for trigger in absent:
        rule = Rule(on=trigger, do=Action.HOLD)
        without = tuple(r for r in rules if r.on is not trigger)
        assert answer((rule, *without), troubles) == answer(without, troubles)


def trouble(trigger: Trigger) -> Trouble:
    return Trouble(Reason.BREACH, "beyond the limit", trigger)


def default(*triggers: Trigger) -> tuple[Action, Target, ModeThere]:
    said = answer(DEFAULT_RULES, [trouble(trigger) for trigger in triggers])
    assert said is not None
    return said.do, said.to, said.mode


@pytest.mark.case("S22")
def test_the_default_tree_is_the_documented_one() -> None:
    back, previous = Action.ROLLBACK, Target.PREVIOUS
    assert default(Trigger.HARDWARE_MISMATCH) == (back, previous, ModeThere.NORMAL)
    assert default(Trigger.P99_LATENCY) == (back, previous, ModeThere.DEGRADED)
    assert default(Trigger.PERPLEXITY) == (back, Target.LAST_VERIFIED, ModeThere.NORMAL)
    assert default(Trigger.ERROR_RATE) == (back, previous, ModeThere.NORMAL)
    assert default(Trigger.ERROR_RATE, Trigger.P99_LATENCY) == (back, previous, ModeThere.DEGRADED)
    assert default(Trigger.ALERT) == (back, previous, ModeThere.NORMAL)


def test_every_metric_can_be_named_by_a_rule() -> None:
    for metric in MetricName:
        assert Trigger(metric.value).value == metric.value


def test_rules_are_read_from_a_spec_in_their_order() -> None:
    rules = [{"on": "errorRate", "do": "Hold"}, {"on": "p99LatencyMs", "do": "Degrade"}]
    read = parse_spec(spec("a", rollback={"rules": rules}).to_json()).rollback.rules
    assert [(rule.on, rule.do) for rule in read] == [
        (Trigger.ERROR_RATE, Action.HOLD),
        (Trigger.P99_LATENCY, Action.DEGRADE),
    ]
