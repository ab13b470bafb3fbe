"""A cluster that exists on paper only."""

from pathlib import Path

import pytest
from backstay_cluster.cluster import Cluster


@pytest.fixture
def paper(tmp_path: Path) -> Cluster:
    run = tmp_path / "run" / "one"
    run.mkdir(parents=True)
    return Cluster("one", run, tmp_path / "store", "198.18.0.1", "198.18.0.2")
