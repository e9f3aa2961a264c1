"""Names of a release and of its artifacts."""

import dataclasses
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = pathlib.Path(os.environ.get("WHITTLE_TOOLS", pathlib.Path.home() / ".cache/whittle-tools"))

# Target of `whittle` -> Rust's name of it.
TARGETS = {
    "linux-x86_64": "x86_64-unknown-linux-gnu",
    "linux-arm64": "aarch64-unknown-linux-gnu",
    "macos-x86_64": "x86_64-apple-darwin",
    "macos-arm64": "aarch64-apple-darwin",
    "windows-x86_64": "x86_64-pc-windows-gnu",
}
ARCHITECTURES = {"arm64": "aarch64", "x86_64": "x86_64"}
FUNCTIONS = sorted(path.name for path in (ROOT / "functions").iterdir())


class ReleaseError(Exception):
    """A step that cannot be done, with the remedy."""


@dataclasses.dataclass(frozen=True)
class Release:
    version: str
    # Folder of the artifacts
    dist: pathlib.Path
    # The repository on GitHub, owner/name
    repository: str
    # Buckets <name>-<Region> have the functions' zips and the templates.
    bucket: str

    @classmethod
    def of_checkout(cls, dist):
        version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
        tag = os.environ.get("GITHUB_REF_NAME", "") if os.environ.get("GITHUB_REF_TYPE") == "tag" else ""
        if tag and tag != f"v{version}":
            raise ReleaseError(f"the tag is {tag}, and Cargo.toml has the version {version}")
        repository = os.environ.get("RELEASE_REPOSITORY") or os.environ.get("GITHUB_REPOSITORY") or "OWNER/whittle"
        if not re.fullmatch(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+", repository):
            raise ReleaseError(f"RELEASE_REPOSITORY is {repository!r}: expected owner/name")
        bucket = os.environ.get("RELEASE_BUCKET") or "BUCKET"
        dist.mkdir(parents=True, exist_ok=True)
        return cls(version, dist.resolve(), repository, bucket)

    @property
    def downloads(self):
        return f"https://github.com/{self.repository}/releases/download/v{self.version}"

    @property
    def image(self):
        return f"ghcr.io/{self.repository.lower()}/relay"

    @property
    def charts(self):
        return f"oci://ghcr.io/{self.repository.lower()}/charts"

    def cli_archive(self, target):
        ending = "zip" if target.startswith("windows") else "tar.gz"
        return self.dist / f"whittle-{self.version}-{target}.{ending}"

    def function_zip(self, function, architecture):
        return self.dist / f"whittle-{function}-{self.version}-{architecture}.zip"

    def relay_archive(self, architecture):
        return self.dist / f"whittle-relay-{self.version}-{architecture}.oci.tar"

    @property
    def relay_index(self):
        return self.dist / f"whittle-relay-{self.version}.oci.tar"

    @property
    def chart(self):
        return self.dist / f"whittle-chart-{self.version}.tgz"

    @property
    def template(self):
        return self.dist / f"whittle-{self.version}.template.yaml"

    @property
    def application(self):
        return self.dist / f"whittle-{self.version}.sar.yaml"

    @property
    def lane_template(self):
        return self.dist / f"whittle-vpc-lane-{self.version}.template.yaml"


def run(*command, **options):
    """Runs a program; where it fails, its output is the error."""
    command = [str(part) for part in command]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, **options)
    except FileNotFoundError:
        raise ReleaseError(f"{command[0]} is missing") from None
    if done.returncode != 0:
        raise ReleaseError(f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr}{done.stdout}")
    return done.stdout
