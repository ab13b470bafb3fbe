"""The tiny model, loaded once."""

from pathlib import Path

import pytest
import torch

from . import tiny


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model's folder."""
    return tiny.write(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)
