from collections.abc import Iterator
from pathlib import Path

import pytest
from backstay_contract.names import RuntimeMetric
from backstay_runtime import assemble
from backstay_runtime.identity import Identity
from backstay_runtime.model.linear import Dtype
from backstay_runtime.startup import Laps, Step
from backstay_runtime.telemetry.metrics import Metrics

IDENTITY = Identity("tiny", "1", "sha256:" + "ab" * 32)


def test_each_step_lasts_from_the_end_of_the_one_before() -> None:
    clock: Iterator[float] = iter([10.0, 12.5, 13.0, 20.0])
    laps = Laps(lambda: next(clock))
    for step in (Step.VERIFY, Step.WEIGHTS, Step.VERIFY):
        laps.end(step)
    assert laps.seconds == {Step.VERIFY: 9.5, Step.WEIGHTS: 0.5}


def test_steps_are_shown_from_the_start_and_filled_in_as_they_end() -> None:
    metrics = Metrics(IDENTITY, {}, "0.0.1")

    def shown(step: Step) -> float | None:
        who = {"model": "tiny", "version": "1", "digest": IDENTITY.digest, "step": str(step)}
        return metrics.registry.get_sample_value(RuntimeMetric.START_SECONDS, who)

    assert [shown(step) for step in Step] == [0.0] * 4
    metrics.set_start_seconds({Step.WEIGHTS: 1.25})
    assert (shown(Step.WEIGHTS), shown(Step.WARM_UP)) == (1.25, 0.0)


@pytest.mark.parametrize("step", [Step.PREPARE, Step.WEIGHTS, Step.WARM_UP])
def test_loading_says_how_long_its_steps_took(folder: Path, step: Step) -> None:
    model = assemble.load(folder, dtype=Dtype.FLOAT32, max_model_len=64, max_num_seqs=2, queue_length=4)
    model.close()
    assert model.seconds[step] > 0
