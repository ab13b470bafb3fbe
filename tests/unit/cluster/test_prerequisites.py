"""What the machine must have, and how it is told."""

from pathlib import Path

import pytest
from backstay_cluster import prerequisites
from backstay_cluster.errors import ClusterError

A_LOT = 10**9
"""GiB that no disk has."""


def test_a_disk_with_room_is_found_though_the_folder_is_not_made_yet(tmp_path: Path) -> None:
    found = prerequisites.disk(tmp_path / "not" / "yet", 0)
    assert found.met
    assert not (tmp_path / "not").exists()


def test_a_full_disk_is_told_with_what_is_free_what_is_needed_and_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=rf"GiB free below {tmp_path}, {A_LOT} GiB are needed; .*BACKSTAY_CACHE"):
        prerequisites.require_disk(tmp_path, A_LOT)


def test_the_doctor_tells_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSTAY_CACHE", str(tmp_path))
    told = {finding.what: finding for finding in prerequisites.everything()}
    assert str(tmp_path) in told["disk"].detail
