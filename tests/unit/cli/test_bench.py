"""A benchmark's figures, its knee, and what it refuses to record."""

import itertools
import math
from datetime import UTC, datetime
from random import Random

import pytest
from backstay_cli.bench import figures, measure, mix, report, users
from backstay_cli.bench.figures import Answer, Step
from backstay_cli.bench.measure import Plan, Result, Subject
from backstay_cli.bench.mix import KINDS, Question, Scale
from backstay_cli.bench.users import BUSY, Load, Think
from backstay_cli.errors import CliError, Exit
from backstay_contract.measurement import MIN_SAMPLES
from backstay_contract.metric import KINDS as METRICS
from backstay_contract.metric import MetricName
from backstay_contract.profile import HardwareProfile
from hypothesis import given
from hypothesis import strategies as st

CONTENT = "sha256:" + "a" * 64
numbers = st.lists(st.floats(0, 1e6), min_size=1, max_size=300)


def answer(seconds: float = 1.0, error: str | None = None, began: float = 0.0, tokens: int = 11) -> Answer:
    return Answer("short", began, began + seconds, began + seconds / 2, tokens, error)


@given(numbers, st.sampled_from([0.01, 0.5, 0.99]))
def test_a_quantile_is_a_value_that_was_seen_inside_of_its_interval(values: list[float], q: float) -> None:
    found = figures.quantile(values, q)
    assert found.value in values
    assert min(values) <= found.low <= found.value <= found.high <= max(values)
    assert sum(value <= found.value for value in values) >= q * len(values)
    assert found.samples == len(values)


def test_the_interval_of_a_percentile_covers_it_as_often_as_it_says() -> None:
    random, covered = Random(3), 0
    for _ in range(400):
        found = figures.quantile([random.expovariate(1.0) for _ in range(1000)], 0.99)
        covered += found.low <= -math.log(0.01) <= found.high
    # 95 % of 400 is 380; fewer than 360 would come by chance once in 100,000 runs.
    assert covered >= 360


@given(st.integers(0, 50), st.integers(0, 50))
def test_an_error_rate_lies_in_its_interval(good: int, bad: int) -> None:
    if good + bad:
        found = figures.error_rate([answer()] * good + [answer(error="503")] * bad)
        assert 0 <= found.low <= found.value <= found.high <= 1
        assert found.value == bad / (good + bad)


def test_figures_are_in_the_metrics_units_and_leave_failures_out() -> None:
    found = figures.figures([answer(2.0)] * 99 + [answer(900.0, error="cut off")])
    assert found[MetricName.P99_LATENCY].value == 2000
    assert found[MetricName.TTFT_P99].value == 1000
    assert found[MetricName.INTER_TOKEN_P99].value == 100
    assert found[MetricName.TOKENS_PER_SECOND].value == 5.5
    assert found[MetricName.ERROR_RATE].value == 0.01


def test_one_token_says_nothing_about_the_time_between_tokens() -> None:
    assert MetricName.INTER_TOKEN_P99 not in figures.figures([answer(tokens=1)])


def sweep(*rates_and_latencies: tuple[float, float]) -> list[Step]:
    sizes = [2**power for power in range(len(rates_and_latencies))]
    return [Step(size, 50, 0, rate, p50, p50) for size, (rate, p50) in zip(sizes, rates_and_latencies, strict=True)]


@pytest.mark.parametrize(
    ("steps", "knee"),
    [
        (sweep((100, 1.0), (190, 1.1), (350, 1.2), (380, 2.2)), 4),
        (sweep((100, 1.0), (119, 1.4)), 2),  # little gain, but little cost
        (sweep((100, 1.0), (130, 1.9)), 2),  # much cost, but it pays
        (sweep((100, 1.0), (101, 1.6)), 1),
        (sweep((100, 1.0)), 1),
    ],
)
def test_the_knee_is_where_more_costs_half_again_as_long_and_gains_less_than_a_fifth(
    steps: list[Step], knee: int
) -> None:
    assert figures.knee(steps) == knee


def test_a_batch_that_mostly_fails_is_beyond_the_knee() -> None:
    steps = [*sweep((100, 1.0)), Step(2, 10, 6, 500.0, 0.1, 0.1)]
    assert figures.knee(steps) == 1


@given(st.integers(), st.integers(16, 4096) | st.none(), st.floats(0.1, 2.0))
def test_a_question_fits_into_what_the_model_takes(seed: int, longest: int | None, per_character: float) -> None:
    found = mix.question(Random(seed), Scale(per_character, longest))
    assert found.prompt
    assert found.max_tokens >= 1
    if longest is not None:
        assert max(1, len(found.prompt) * per_character) + found.max_tokens <= longest


def test_the_mix_is_twenty_fifty_thirty() -> None:
    random = Random(1)
    kinds = [mix.question(random, Scale()).kind for _ in range(5000)]
    for kind in KINDS:
        assert kinds.count(kind.name) / 5000 == pytest.approx(kind.share, abs=0.03)  # 4 standard errors


def test_users_ask_until_there_are_enough_answers() -> None:
    asked: list[Question] = []

    def ask(question: Question) -> Answer:
        asked.append(question)
        return answer()

    found = users.run(ask, Load(4, BUSY, 60.0, 40), seed=1)
    assert 40 <= len(found) == len(asked) <= 43


def test_every_user_asks_something_of_its_own_and_a_seed_repeats_it() -> None:
    def prompts(seed: int) -> set[str]:
        asked: set[str] = set()
        users.run(lambda question: asked.add(question.prompt) or answer(), Load(3, BUSY, 60.0, 3), seed)  # type: ignore[func-returns-value]
        return asked

    assert len(prompts(1)) > 1


def test_thinking_users_keep_the_wanted_part_of_the_knee_busy() -> None:
    step = Step(8, 50, 0, 100.0, 0.5, 0.9)
    count = measure.users_for(8, step, Think(2, 5))
    busy = count * 0.5 / (3.5 + 0.5)
    assert busy == pytest.approx(0.7 * 8, rel=0.05)


@pytest.mark.case("T42")
@pytest.mark.parametrize(
    ("answers", "word"),
    [
        ([answer()] * (MIN_SAMPLES - 1), "too few"),
        ([answer()] * 200 + [answer(error="503")] * 3, "503"),
        ([], "too few"),
    ],
)
def test_worthless_numbers_are_refused_with_the_reason(answers: list[Answer], word: str) -> None:
    with pytest.raises(CliError, match=word) as caught:
        measure.check(answers)
    assert caught.value.code is Exit.REFUSED


def test_a_server_that_fails_for_a_single_user_ends_the_benchmark() -> None:
    plan = Plan(sizes=(1, 2), step_seconds=0.05)
    with pytest.raises(CliError, match="single user"):
        measure.sweep(lambda question: answer(error="500"), plan, lambda what, count: lambda _: None)


@pytest.fixture
def result() -> Result:
    clock = itertools.count()

    def ask(question: Question) -> Answer:
        began = next(clock) / 10
        return Answer(question.kind, began, began + 0.5, began + 0.25, 5)

    plan = Plan(sizes=(1, 2), step_seconds=0.02, requests=150, think=BUSY)
    return measure.benchmark(ask, plan, lambda what, requests: lambda _: None)


def test_baselines_say_what_they_rest_on(result: Result) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    subject = Subject(CONTENT, HardwareProfile(), "0.1.0")
    found = measure.baselines(result, subject, {MetricName.P99_LATENCY: 1.5}, at)
    one = found[MetricName.P99_LATENCY]
    assert (one.tolerance, one.unit) == (1.5, METRICS[MetricName.P99_LATENCY].unit)
    assert one.measured.samples is not None
    assert one.measured.samples >= 150
    assert one.measured.confidence is not None
    assert one.measured.confidence.low <= one.value <= one.measured.confidence.high
    assert (one.measured.content, one.measured.runtime_version, one.measured.at) == (CONTENT, "0.1.0", at)
    assert "20%" in (one.measured.mix or "")
    assert one.measured.error_rate == 0


def test_the_report_marks_the_knee_and_names_every_figure(result: Result) -> None:
    said = "\n".join(report.lines(result))
    assert said.count("← knee") == 1
    assert all(metric in said for metric in result.figures)
    assert report.as_json(result)["knee"] == result.knee


def test_requests_under_way_are_their_time_over_the_whole() -> None:
    assert figures.concurrency([answer(2.0, began=0.0), answer(2.0, began=2.0)]) == 1.0
    assert figures.concurrency([answer(2.0), answer(2.0)]) == 2.0
    assert figures.concurrency([]) == 0.0
