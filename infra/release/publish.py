"""Signs and uploads an assembled release. The identity of a signature is the workflow that made it: no key is kept."""

import os
import shlex
import subprocess

import templates
from assemble import SIGNATURE, SUMS, relay_index, sums
from common import FUNCTIONS, ROOT, ReleaseError


def publish(release, dry_run=False):
    regions = os.environ.get("RELEASE_REGIONS", "us-east-1").split()
    if not dry_run:
        require_publishable(release)
    for command in commands(release, regions):
        print("+", shlex.join(command), flush=True)
        if not dry_run and subprocess.run(command, cwd=ROOT).returncode != 0:
            raise ReleaseError(f"`{shlex.join(command)}` failed; steps that succeeded may be repeated")
    for region in regions:
        print(f"quick create in {region}: {templates.quick_create(release, region)}")


def require_publishable(release):
    if release.repository.startswith("OWNER/") or release.bucket == "BUCKET":
        raise ReleaseError("RELEASE_REPOSITORY (owner/name) and RELEASE_BUCKET (the buckets' name without -<Region>) must be set")
    if not (release.dist / "NOTES.md").read_text().split("\n", 1)[0]:
        raise ReleaseError(f"CHANGELOG.md has no section `## [{release.version}] - <date>`")
    expected = (release.dist / SUMS).read_text()
    sums(release)
    if (release.dist / SUMS).read_text() != expected:
        (release.dist / SUMS).write_text(expected)
        raise ReleaseError(f"artifacts are not what {SUMS} says: run `make release-assemble`")


def commands(release, regions):
    dist, image = release.dist, f"{release.image}:{release.version}"
    yield ["cosign", "sign-blob", "--yes", "--bundle", str(dist / SIGNATURE), str(dist / SUMS)]
    if release.relay_index.exists():
        digest = relay_index(release)
        yield ["skopeo", "copy", "--all", "--preserve-digests", f"oci-archive:{release.relay_index}", f"docker://{image}"]
        yield ["cosign", "sign", "--yes", "--recursive", f"{release.image}@{digest}"]
    yield ["helm", "push", str(release.chart), release.charts]
    yield ["cosign", "sign", "--yes", f"{release.charts.removeprefix('oci://')}/whittle:{release.version}"]
    for region in regions:
        yield from uploads(release, region)
    if os.environ.get("RELEASE_SAR") == "1":
        for name in ("LICENSE", "README.md"):
            address = f"s3://{release.bucket}-{templates.SAR_REGION}/{templates.key(release, name)}"
            yield ["aws", "s3", "cp", "--region", templates.SAR_REGION, "--only-show-errors", name, address]
        yield ["sam", "publish", "--region", templates.SAR_REGION, "--template", str(release.application)]
    files = sorted(str(path) for path in dist.iterdir() if path.is_file() and path.name not in ("NOTES.md", SIGNATURE))
    yield ["gh", "release", "create", f"v{release.version}", "--repo", release.repository, "--verify-tag",
           "--title", release.version, "--notes-file", str(dist / "NOTES.md"), *files, str(dist / SIGNATURE)]


def uploads(release, region):
    """What stacks are deployed from, in the bucket of the Region: Lambda takes code from its own Region only."""
    artifacts = {"template.yaml": release.template, "vpc-lane.yaml": release.lane_template}
    for architecture in ("arm64", "x86_64"):
        for function in FUNCTIONS:
            artifacts[f"{function}-{architecture}.zip"] = release.function_zip(function, architecture)
    for name, path in artifacts.items():
        if path.exists():
            address = f"s3://{release.bucket}-{region}/{templates.key(release, name)}"
            yield ["aws", "s3", "cp", "--region", region, "--only-show-errors", str(path), address]
