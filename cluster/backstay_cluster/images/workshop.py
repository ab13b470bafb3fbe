"""buildah and skopeo: the one builds images, the other takes their layers out as they are.

buildah's own export compresses every layer anew each time (45 s for the runtime's image, changed or not); skopeo
writes them uncompressed and only those that are not there yet (32 s for all, 0.02 s for none)."""

import os
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from backstay_cluster.errors import ClusterError
from backstay_cluster.progress import Step
from backstay_cluster.shell import run, succeeds

_EXPORT_LIMIT_S = 1200.0
_TAIL_LINES = 25


@dataclass(frozen=True)
class Build:
    """One build: what `buildah build` is to make of which folder."""

    containerfile: Path
    context: Path
    reference: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[Path, str] = field(default_factory=dict)
    """Folders of the machine, lent to the commands of the build: package caches."""
    secrets: Mapping[str, Path] = field(default_factory=dict)
    layers: bool = True
    """Keep each step's result for later builds; without, all steps make one layer with fixed times."""


@dataclass(frozen=True)
class Workshop:
    """buildah's storage for this project, apart from whatever else the machine's user builds."""

    root: Path
    """On the big disk: images and the results of their steps."""
    state: Path
    """Locks and mounts, worth nothing after a restart of the machine."""

    def build(self, build: Build, log: Path, step: Step) -> None:
        """Run the build; its output goes to `log`, its steps to `step`; ClusterError with the log's end."""
        log.parent.mkdir(parents=True, exist_ok=True)
        said: deque[str] = deque(maxlen=_TAIL_LINES)
        command = self.build_command(build)
        with (
            log.open("w") as file,
            subprocess.Popen(
                command,
                env={**os.environ, "BUILDAH_ISOLATION": "chroot", "TMPDIR": str(self._scratch())},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            ) as process,
        ):
            assert process.stdout is not None  # noqa: S101 - for the type checker: it is a pipe
            for line in process.stdout:
                file.write(line)
                said.append(line.rstrip())
                if "STEP " in line:
                    step.waits_for(" ".join(line.split())[:90])
        if process.returncode != 0:
            ending = "\n".join(said)
            raise ClusterError(f"build of {build.reference}: exit {process.returncode}; the end of {log}:\n{ending}")

    def build_command(self, build: Build) -> list[str]:
        """The command line of a build. Nothing is ever pulled: bases are built here, too."""
        options = ["--pull-never", f"--file={build.containerfile}", f"--tag={build.reference}"]
        options += ["--layers"] if build.layers else ["--layers=false", "--timestamp=0"]
        options += [f"--build-arg={name}={value}" for name, value in build.arguments.items()]
        options += [f"--volume={folder}:{inside}" for folder, inside in build.volumes.items()]
        options += [f"--secret=id={name},src={path}" for name, path in build.secrets.items()]
        return [*self._buildah(), "build", *options, str(build.context)]

    def has(self, reference: str) -> bool:
        """Whether the storage holds an image of that name."""
        return succeeds([*self._buildah(), "inspect", "--type=image", "--format={{.FromImageID}}", reference])

    def export_command(self, reference: str, folder: Path, blobs: Path) -> list[str]:
        """The command line that writes an image's layout to `folder` and its blobs to `blobs`/sha256."""
        source = f"containers-storage:[overlay@{self.root}+{self.state}]{reference}"
        options = ["--quiet", "--insecure-policy", "--dest-oci-accept-uncompressed-layers"]
        return ["skopeo", "copy", *options, f"--dest-shared-blob-dir={blobs}", source, f"oci:{folder}:{reference}"]

    def export(self, reference: str, folder: Path, blobs: Path) -> None:
        """Write an image's layout; layers that lie in `blobs` already are left as they are."""
        run(self.export_command(reference, folder, blobs), timeout_s=_EXPORT_LIMIT_S)

    def references(self) -> list[str]:
        """Names of all images in the storage that have one."""
        listed = run([*self._buildah(), "images", "--noheading", "--format={{.Name}}:{{.Tag}}"])
        return [line for line in listed.splitlines() if "<none>" not in line]

    def remove(self, references: Sequence[str]) -> None:
        """Forget these images, and results of steps that no image is made of."""
        for reference in references:
            run([*self._buildah(), "rmi", "--force", reference], timeout_s=300)
        run([*self._buildah(), "rmi", "--prune", "--force"], timeout_s=300)

    def _scratch(self) -> Path:
        """A folder for layers on their way, on the storage's own disk: /var/tmp may be a small one."""
        folder = self.root / "tmp-layers"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _buildah(self) -> list[str]:
        return ["buildah", "--storage-driver=overlay", f"--root={self.root}", f"--runroot={self.state}"]
