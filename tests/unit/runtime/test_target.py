"""For which processor code is compiled."""

from backstay_runtime.kernels.target import TARGETS, best
from hypothesis import given
from hypothesis import strategies as st

BEST, PLAIN = TARGETS
OTHERS = frozenset({"amx-tile", "avx512vnni", "sha", "avx10.1"})
features = st.sets(st.sampled_from(sorted(BEST.needed | OTHERS)))


def test_a_processor_with_wide_vectors_gets_code_that_uses_them() -> None:
    assert best(BEST.needed | OTHERS) is BEST


def test_one_with_narrower_ones_gets_the_level_that_it_has() -> None:
    assert best(PLAIN.needed | OTHERS) is PLAIN


def test_wide_vectors_of_the_first_kind_alone_are_not_enough() -> None:
    assert best(BEST.needed - {"avx512vl"}) is PLAIN


def test_an_old_processor_or_one_of_another_family_is_compiled_for_by_itself() -> None:
    assert best(PLAIN.needed - {"avx2"}) is None
    assert best({"neon", "fp-armv8", "dotprod"}) is None
    assert best(()) is None


@given(features)
def test_no_code_needs_what_its_processor_lacks(given: set[str]) -> None:
    target = best(given)
    assert target is None or target.needed <= given


@given(features)
def test_no_better_target_is_left_out(given: set[str]) -> None:
    found = best(given)
    better = TARGETS[: TARGETS.index(found)] if found else TARGETS
    assert not any(target.needed <= given for target in better)
