"""The cache's column of the fault matrix; the others have tests of their own, and `make faults` plays them all."""

import itertools
from pathlib import Path

import pytest

from .cells import CELLS, FAULTS, WAYS, NotHereError
from .place import Place
from .proxy import Proxy
from .server import Server


def test_every_fault_is_played_on_every_way() -> None:
    assert set(CELLS) == set(itertools.product(FAULTS, WAYS))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_shared_cache_loses_nothing_and_shows_no_half_of_a_model(
    storage: Server, proxy: Proxy, tmp_path: Path, fault: str
) -> None:
    try:
        assert CELLS[fault, "cache"](Place.make(storage, proxy, tmp_path))
    except NotHereError as why:
        pytest.skip(str(why))
