"""What readers of the metrics need to know of the process itself."""

import time

from backstay_runtime.identity import Identity
from backstay_runtime.telemetry.metrics import Metrics
from prometheus_client.parser import text_string_to_metric_families


def test_the_time_of_the_process_s_start_is_told_so_that_a_restart_is_no_mystery() -> None:
    text = Metrics(Identity("m", "1", "sha256:" + "a" * 64), {}, "0").exposition().decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    (start,) = (sample.value for sample in samples if sample.name == "process_start_time_seconds")
    assert 0 < start <= time.time()
