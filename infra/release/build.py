"""Builds programs for the machines they run on."""

import gzip
import io
import os
import pathlib
import platform
import subprocess
import tarfile
import tempfile
import zipfile

from common import ARCHITECTURES, FUNCTIONS, ROOT, TARGETS, ReleaseError, run

# Programs run with this version of glibc and later: the one of Amazon Linux 2.
GLIBC = "2.17"
# Shell -> name of its completion script.
COMPLETIONS = {"bash": "whittle.bash", "zsh": "_whittle", "fish": "whittle.fish", "powershell": "whittle.ps1"}


def host_architecture():
    return {"aarch64": "arm64", "arm64": "arm64", "x86_64": "x86_64", "AMD64": "x86_64"}[platform.machine()]


def host_target():
    system = {"Linux": "linux", "Darwin": "macos", "Windows": "windows"}[platform.system()]
    return f"{system}-{host_architecture()}"


def require_target(triple):
    if triple not in run("rustup", "target", "list", "--installed").split():
        raise ReleaseError(f"Rust's target {triple} is missing: rustup target add {triple}")


def target_folder():
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def cargo(*command, **environment):
    """Runs cargo with its progress on the terminal."""
    done = subprocess.run(["cargo", *command], cwd=ROOT, env={**os.environ, **environment})
    if done.returncode != 0:
        raise ReleaseError(f"`cargo {' '.join(command)}` ended with {done.returncode}")


def built(binaries, *path):
    """A program of the folder of programs that are built already, or None without such a folder."""
    if binaries is None:
        return None
    program = binaries.joinpath(*path)
    if not program.exists():
        raise ReleaseError(f"{program} is missing")
    return program


def program_name(target):
    return "whittle.exe" if target.startswith("windows") else "whittle"


def cli(release, target, binaries=None):
    triple = TARGETS[target]
    name = program_name(target)
    program = built(binaries, target, name)
    if program is None:
        require_target(triple)
        options = ["--locked", "--profile", "cli", "--package", "whittle", "--features", "whittle/aws"]
        commit = {"WHITTLE_COMMIT": run("git", "rev-parse", "HEAD").strip()}
        if target.startswith("macos"):
            if platform.system() != "Darwin" and not os.environ.get("SDKROOT"):
                raise ReleaseError("the SDK of macOS is missing: build on macOS, or set SDKROOT")
            cargo("build" if platform.system() == "Darwin" else "zigbuild", *options, "--target", triple, **commit)
        elif target.startswith("linux"):
            cargo("zigbuild", *options, "--target", f"{triple}.{GLIBC}", **commit)
        else:
            cargo("zigbuild", *options, "--target", triple, **commit)
        program = target_folder() / triple / "cli" / name
    contents = {name: (program.read_bytes(), 0o755)}
    for document in ("LICENSE", "README.md", "CHANGELOG.md"):
        contents[document] = ((ROOT / document).read_bytes(), 0o644)
    contents.update(manuals(program if target == host_target() else host_program(binaries)))
    archive = release.cli_archive(target)
    archive.write_bytes(zip_archive(contents) if archive.suffix == ".zip" else tar_archive(contents))
    print(archive.name)


def host_program(binaries):
    """The command line for this machine. Its help is the same without AWS, whose SDK takes minutes to compile."""
    target = host_target()
    program = built(binaries, target, program_name(target))
    if program is None:
        cargo("build", "--locked", "--profile", "cli", "--package", "whittle", "--target", TARGETS[target])
        program = target_folder() / TARGETS[target] / "cli" / program_name(target)
    return program


def manuals(program):
    """Completion scripts and manual pages, as the program writes them."""
    contents = {
        f"completions/{name}": (run(program, "completion", shell).encode(), 0o644) for shell, name in COMPLETIONS.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        run(program, "man", "--dir", folder)
        for page in sorted(pathlib.Path(folder).iterdir()):
            contents[f"man/{page.name}"] = (page.read_bytes(), 0o644)
    return contents


def functions(release, architecture, binaries=None):
    triple = f"{ARCHITECTURES[architecture]}-unknown-linux-gnu"
    if binaries is None:
        require_target(triple)
        packages = [word for function in FUNCTIONS for word in ("--package", function)]
        folder = target_folder() / "release-functions" / architecture
        # As `sam build` calls it.
        cargo(
            "lambda", "build", "--release", "--locked", *packages, "--lambda-dir", str(folder),
            "--arm64" if architecture == "arm64" else "--x86-64",
        )
    for function in FUNCTIONS:
        program = built(binaries, "functions", architecture, function) or folder / function / "bootstrap"
        archive = release.function_zip(function, architecture)
        archive.write_bytes(zip_archive({"bootstrap": (program.read_bytes(), 0o755)}))
        print(archive.name)


def relay(release, architecture, binaries=None):
    triple = f"{ARCHITECTURES[architecture]}-unknown-linux-gnu"
    program = built(binaries, "relay", architecture)
    if program is None:
        # Static linking needs the C library of the architecture, which no cross compiler here has.
        if (platform.system(), host_architecture()) != ("Linux", architecture):
            raise ReleaseError(f"the image is built on Linux on {architecture}: `make release-relay` there")
        static = "-C target-feature=+crt-static"
        cargo("build", "--locked", "--release", "--package", "relay", "--target", triple, RUSTFLAGS=static)
        program = target_folder() / triple / "release" / "relay"
    name = f"{release.image}:{release.version}"
    print(run("infra/tools/relay-image", program, release.relay_archive(architecture), "--name", name).strip())


def tar_archive(contents):
    """A tar.gz that depends on nothing but names, modes and contents."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, (content, mode) in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0)


def zip_archive(contents):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (content, mode) in contents.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return buffer.getvalue()
