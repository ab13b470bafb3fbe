import socket
from pathlib import Path

from backstay_contract.names import Env
from backstay_contract.termination import GaveUp, Termination

from tests.unit.runtime import tiny

from .conftest import publish
from .processes import Server, running


def gave_up(server: Server, code: int, reason: GaveUp) -> Termination:
    """The server ended with this code and left this reason."""
    assert server.process.wait(60) == code, server.log()
    left = server.termination()
    assert left is not None
    assert left.reason is reason
    return left


def environment(models: Path, digest: str) -> dict[str, str]:
    return {Env.MODELS_FOLDER: str(models), Env.MODEL_DIGEST: digest}


def test_a_model_is_served_from_the_folder_that_its_digest_names(folder: Path, tmp_path: Path) -> None:
    _, digest = publish(folder, tmp_path / "models")
    with running(tmp_path / "run", **environment(tmp_path / "models", digest)) as server:
        server.wait_until_ready()
        loaded = next(line for line in server.log() if line["message"] == "the model is loaded")
        assert (loaded["model"], loaded["version"], loaded["digest"]) == ("tiny", "1.2.0", digest)


def test_a_flipped_byte_is_named_with_both_hashes(folder: Path, tmp_path: Path) -> None:
    copy, digest = publish(folder, tmp_path / "models")
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    with running(tmp_path / "run", **environment(tmp_path / "models", digest)) as server:
        left = gave_up(server, 10, GaveUp.DIGEST_MISMATCH)
    assert left.path == "model.safetensors"
    assert left.expected != left.actual


def test_weights_that_do_not_fit_their_config_are_named(tmp_path: Path) -> None:
    weights = tiny.tensors()
    del weights["model.norm.weight"]
    tiny.write(tmp_path / "model", weights)
    with running(tmp_path / "run", "--model", str(tmp_path / "model")) as server:
        assert "missing: model.norm.weight" in gave_up(server, 18, GaveUp.MODEL_INVALID).message


def test_a_wrong_setting_is_named_with_its_value(folder: Path, tmp_path: Path) -> None:
    with running(tmp_path, "--model", str(folder), **{Env.MAX_NUM_SEQS: "0"}) as server:
        assert f"{Env.MAX_NUM_SEQS} is '0'" in gave_up(server, 2, GaveUp.SETTINGS_INVALID).message


def test_a_port_that_is_taken_is_named(folder: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with running(tmp_path, "--model", str(folder), **{Env.PORT: port}) as server:
            assert port in gave_up(server, 2, GaveUp.SETTINGS_INVALID).message
