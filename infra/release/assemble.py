"""Assembles a release of what was built: all that needs no compiler."""

import hashlib
import pathlib
import re
import shutil
import tempfile

import templates
from common import FUNCTIONS, ROOT, TARGETS, TOOLS, ReleaseError, run

HERE = pathlib.Path(__file__).resolve().parent
# Files that are not listed in the checksums: the checksums and their signature.
SUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sigstore.json"


def assemble(release, partial=False):
    missing = [path.name for path in built_elsewhere(release) if not path.exists()]
    if missing and not partial:
        raise ReleaseError("not everything was built: missing are " + ", ".join(missing))
    digest = relay_index(release)
    chart(release, digest)
    release.template.write_text(templates.stack(release))
    release.lane_template.write_text(templates.lane(release))
    release.application.write_text(templates.application(release))
    for name, template in (("install.sh", ROOT / "infra/install.sh"), ("whittle.rb", HERE / "whittle.rb.in"),
                           ("whittle.krew.yaml", HERE / "whittle.krew.yaml.in")):
        (release.dist / name).write_text(filled(release, template.read_text()))
    (release.dist / "install.sh").chmod(0o755)
    sboms(release)
    (release.dist / "NOTES.md").write_text(notes(release))
    sums(release)
    for path in sorted(release.dist.iterdir()):
        if path.is_file():
            print(f"{path.stat().st_size:>12,}  {path.name}")


def built_elsewhere(release):
    yield from (release.cli_archive(target) for target in TARGETS)
    for architecture in ("arm64", "x86_64"):
        yield from (release.function_zip(function, architecture) for function in FUNCTIONS)
        yield release.relay_archive(architecture)
    yield release.dist / "sbom"


def relay_index(release):
    """Combines the images that there are, and returns the digest of the index, or None without an image."""
    archives = [release.relay_archive(architecture) for architecture in ("arm64", "x86_64")]
    archives = [path for path in archives if path.exists()]
    if not archives:
        return None
    name = f"{release.image}:{release.version}"
    output = run("infra/tools/relay-index", release.relay_index, *archives, "--name", name)
    return re.search(r"sha256:[0-9a-f]{64}$", output.strip())[0]


def chart(release, digest):
    """Packages the chart with its CRDs; its default image is the one of the release."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, "whittle")
        shutil.copytree(ROOT / "infra/chart", copy)
        changes = {
            "values.yaml": [
                ('    repository: ""\n', f"    repository: {release.image}\n"),
                ("    architecture: amd64\n", '    architecture: ""\n'),
            ],
            "README.md": [
                ('`relay.image.repository` | `""`', f'`relay.image.repository` | `"{release.image}"`'),
                ('`relay.image.architecture` | `"amd64"`', '`relay.image.architecture` | `""`'),
            ],
            "Chart.yaml": [
                ("keywords:", f"home: https://github.com/{release.repository}\nsources: [https://github.com/{release.repository}]\nkeywords:"),
            ],
            # The image comes with the chart.
            "example-values.yaml": [("relay:\n", "")],
        }
        if digest:
            changes["values.yaml"].append(('    digest: ""\n', f"    digest: {digest}\n"))
            changes["README.md"].append(('`relay.image.digest` | `""`', f'`relay.image.digest` | `"{digest}"`'))
        for name, pairs in changes.items():
            text = (copy / name).read_text()
            for old, new in pairs:
                text = templates.replace(text, old, new)
            (copy / name).write_text(text.partition("  image:\n")[0] if name == "example-values.yaml" else text)
        helm = TOOLS / "bin/helm" if (TOOLS / "bin/helm").exists() else "helm"
        run(helm, "package", copy, "--version", release.version, "--app-version", release.version, "--destination", folder)
        shutil.move(pathlib.Path(folder, f"whittle-{release.version}.tgz"), release.chart)


def sha256(path):
    # A placeholder for an artifact that was not built; only a dry run continues without it.
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "0" * 64


def filled(release, text):
    """A template of a file, with the names and checksums of this release."""
    values = {"VERSION": release.version, "REPOSITORY": release.repository, "DOWNLOADS": release.downloads}
    for target in TARGETS:
        archive = release.cli_archive(target)
        values[f"URL {target}"], values[f"SHA256 {target}"] = f"{release.downloads}/{archive.name}", sha256(archive)
    text = re.sub(r"@([A-Z0-9]+(?: [a-z0-9_-]+)?)@", lambda match: values[match[1]], text)
    return text


def sboms(release):
    folder = release.dist / "sbom"
    for path in sorted(folder.glob("*.json")) if folder.exists() else ():
        shutil.copy(path, release.dist / f"whittle-{release.version}-{path.stem}.cdx.json")


def notes(release):
    """The changes of this version, as CHANGELOG.md has them."""
    text = (ROOT / "CHANGELOG.md").read_text()
    section = re.search(rf"^## \[{re.escape(release.version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## \[|\Z)", text, re.MULTILINE | re.DOTALL)
    changes = section[1].strip() if section else ""
    install = (ROOT / "docs/releases.md").as_posix().removeprefix(f"{ROOT}/")
    return f"{changes}\n\n[How to install and verify](https://github.com/{release.repository}/blob/v{release.version}/{install})\n"


def sums(release):
    lines = [
        f"{sha256(path)}  {path.name}\n"
        for path in sorted(release.dist.iterdir())
        if path.is_file() and path.name not in (SUMS, SIGNATURE, "NOTES.md")
    ]
    (release.dist / SUMS).write_text("".join(lines))
