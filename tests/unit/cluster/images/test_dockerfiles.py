import re
import subprocess

import pytest
from backstay_cluster.images import recipes
from backstay_runtime.kernels import kept

LOCK = """\
certifi==2026.1.1 \\
    --hash=sha256:aa
cuda-bindings==13.1 ; sys_platform == 'linux' \\
    --hash=sha256:bb \\
    --hash=sha256:bc
fastapi==0.1 \\
    --hash=sha256:cc
nvidia-cublas==13.4 ; sys_platform == 'linux' \\
    --hash=sha256:dd
torch==2.1 \\
    --hash=sha256:ee
triton==3.9 \\
    --hash=sha256:ff
uvicorn==0.5 \\
    --hash=sha256:00
"""
BOTH = pytest.mark.parametrize("name", recipes.PROJECT_IMAGES)


def dockerfile(name: str) -> str:
    return (recipes.PROJECT / f"Dockerfile.{name}").read_text()


def last_stage(name: str) -> str:
    return dockerfile(name).rpartition("\nFROM ")[2]


@BOTH
def test_an_image_runs_as_a_user_without_rights(name: str) -> None:
    # A number: the kubelet cannot tell of a name that it is not root's.
    assert re.findall(r"^USER (.*)$", last_stage(name), re.MULTILINE) == ["65532:65532"]


@BOTH
def test_an_image_starts_the_part_that_it_is_named_after(name: str) -> None:
    assert f'ENTRYPOINT ["python", "-m", "backstay_{name}"]' in last_stage(name)


@BOTH
def test_no_base_but_the_one_given_is_pulled(name: str) -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", dockerfile(name), re.MULTILINE))
    bases = set(re.findall(r"^FROM (\S+) AS", dockerfile(name), re.MULTILINE))
    assert bases - stages == {"${PYTHON_IMAGE}"}


@BOTH
def test_libraries_are_installed_only_with_the_hashes_of_the_lock(name: str) -> None:
    installs = re.findall(r"uv pip install((?:.*\\\n)*.*)", dockerfile(name))
    from_lock = [install for install in installs if "--requirements" in install]
    assert from_lock
    assert all("--require-hashes" in install and "--no-deps" in install for install in from_lock)
    assert len(installs) - len(from_lock) == 1  # our own code


@BOTH
def test_code_is_copied_after_all_libraries_are_installed(name: str) -> None:
    text = dockerfile(name)
    assert text.rindex("uv pip install") < text.index("COPY --from=code")


@BOTH
def test_a_part_contains_the_contract_and_no_other_part(name: str) -> None:
    copied = set(re.findall(r"^COPY (\w+) \w+$", dockerfile(name), re.MULTILINE))
    assert copied == {"contract", name}


def test_the_torch_layer_depends_on_torchs_own_lines_of_the_lock_alone() -> None:
    (program,) = re.findall(r"awk '([^']+)'", dockerfile("runtime"))
    done = subprocess.run(["awk", program], input=LOCK, capture_output=True, text=True, check=True)
    names = [line.split("==")[0] for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert names == ["cuda-bindings", "nvidia-cublas", "torch", "triton"]
    assert "--hash=sha256:bc" in done.stdout
    assert "--hash=sha256:cc" not in done.stdout


def test_machine_code_is_compiled_beside_nothing_but_the_kernels() -> None:
    (stage,) = re.findall(r"^FROM libraries AS kernels$(.*?)^FROM ", dockerfile("runtime"), re.MULTILINE | re.DOTALL)
    assert re.findall(r"^COPY (\S+) (\S+)$", stage, re.MULTILINE) == [
        ("runtime/backstay_runtime/__init__.py", "/opt/backstay/backstay_runtime/"),
        ("runtime/backstay_runtime/kernels", "/opt/backstay/backstay_runtime/kernels"),
    ]


def test_a_pod_is_told_where_its_machine_code_was_compiled_to() -> None:
    (folder,) = re.findall(r"-m backstay_runtime\.kernels\.ahead (\S+)$", dockerfile("runtime"), re.MULTILINE)
    assert f"COPY --from=kernels {folder} {folder}\n" in last_stage("runtime")
    assert f"{kept.SHIPPED}={folder}\n" in last_stage("runtime")


def test_the_operators_image_installs_from_the_operators_lines_of_the_lock() -> None:
    assert "--package backstay-operator" in dockerfile("operator")
    assert "torch" not in dockerfile("operator")
