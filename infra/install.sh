#!/bin/sh
# Installs the command line of Whittle from a release.
#
#   curl -fsSL <address of this file> | sh
#   sh install.sh [--dry-run] [--to FOLDER] [--base-url URL] [--verify-signature]
#
#   --dry-run             download nothing, print what would be done
#   --to FOLDER           where `whittle` goes: ~/.local/bin, unless WHITTLE_INSTALL says otherwise
#   --base-url URL        where the artifacts of the release are (https://, http:// or file://)
#   --verify-signature    check the signature of the checksums, too; needs cosign
#
# The archive is installed only if its SHA-256 is the one that SHA256SUMS of the release names.
set -eu

version='@VERSION@'
base_url='@DOWNLOADS@'
repository='@REPOSITORY@'
to=${WHITTLE_INSTALL:-$HOME/.local/bin}
dry_run=
verify_signature=

fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

usage() {
    sed -n '4,10s/^# \{0,1\}//p' "$0" 2>/dev/null || true
}

while [ $# -gt 0 ]; do
    case $1 in
        --dry-run) dry_run=yes ;;
        --verify-signature) verify_signature=yes ;;
        --to | --base-url)
            [ $# -gt 1 ] || fail "$1 needs a value"
            if [ "$1" = --to ]; then to=$2; else base_url=${2%/}; fi
            shift
            ;;
        --help | -h)
            usage
            exit 0
            ;;
        *) fail "unknown option $1: expected --dry-run, --to, --base-url or --verify-signature" ;;
    esac
    shift
done

case $version in
    @*) fail "this is the template of the install script: the one of a release knows its version" ;;
esac
case $base_url in
    https://* | http://127.0.0.1[:/]* | http://localhost[:/]* | file://*) ;;
    *) fail "the address $base_url is not protected: expected https:// or file://" ;;
esac

system=$(uname -s)
case $system in
    Linux) system=linux ;;
    Darwin) system=macos ;;
    *) fail "there is no archive for $system here: download the one for Windows from $base_url" ;;
esac
machine=$(uname -m)
case $machine in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=arm64 ;;
    *) fail "there is no archive for $machine: expected x86_64 or arm64" ;;
esac
archive=whittle-$version-$system-$machine.tar.gz

if [ -n "$dry_run" ]; then
    printf 'download %s\n' "$base_url/SHA256SUMS"
    [ -z "$verify_signature" ] || printf 'check its signature by a workflow of %s\n' "$repository"
    printf 'download %s\n' "$base_url/$archive"
    printf 'check its SHA-256\n'
    printf 'install %s\n' "$to/whittle"
    exit 0
fi

if command -v curl >/dev/null 2>&1; then
    download() { curl --fail --silent --show-error --location --retry 3 --output "$2" "$1"; }
elif command -v wget >/dev/null 2>&1; then
    download() { wget --quiet --output-document "$2" "$1"; }
else
    fail "neither curl nor wget is there"
fi
if command -v sha256sum >/dev/null 2>&1; then
    sha256() { sha256sum "$1" | cut -d' ' -f1; }
elif command -v shasum >/dev/null 2>&1; then
    sha256() { shasum -a 256 "$1" | cut -d' ' -f1; }
else
    fail "neither sha256sum nor shasum is there"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

download "$base_url/SHA256SUMS" "$work/SHA256SUMS" || fail "cannot download $base_url/SHA256SUMS"
if [ -n "$verify_signature" ]; then
    command -v cosign >/dev/null 2>&1 || fail "cosign is missing: install it, or leave out --verify-signature"
    download "$base_url/SHA256SUMS.sigstore.json" "$work/SHA256SUMS.sigstore.json" ||
        fail "cannot download $base_url/SHA256SUMS.sigstore.json"
    cosign verify-blob --bundle "$work/SHA256SUMS.sigstore.json" \
        --certificate-identity "https://github.com/$repository/.github/workflows/release.yml@refs/tags/v$version" \
        --certificate-oidc-issuer https://token.actions.githubusercontent.com \
        "$work/SHA256SUMS" >/dev/null || fail "the signature of SHA256SUMS is not one of $repository's release v$version"
fi
expected=$(awk -v name="$archive" '$2 == name { print $1 }' "$work/SHA256SUMS")
[ -n "$expected" ] || fail "SHA256SUMS of $base_url does not name $archive: the release has no archive for this machine"
download "$base_url/$archive" "$work/$archive" || fail "cannot download $base_url/$archive"
found=$(sha256 "$work/$archive")
[ "$found" = "$expected" ] || fail "the SHA-256 of $archive is $found, and SHA256SUMS names $expected: nothing was installed"

tar -xzf "$work/$archive" -C "$work" whittle || fail "$archive has no program whittle"
mkdir -p "$to" || fail "cannot create $to: choose another folder by --to"
# In place at once: a program that runs keeps its old file.
if ! { cp "$work/whittle" "$to/.whittle.new" && chmod 755 "$to/.whittle.new" && mv -f "$to/.whittle.new" "$to/whittle"; }; then
    fail "cannot write $to/whittle: choose another folder by --to"
fi
printf 'installed whittle %s as %s\n' "$version" "$to/whittle"
printf 'completion for your shell: whittle completion --help\n'
case :$PATH: in
    *:"$to":*) ;;
    *) printf 'add %s to PATH to call it by its name\n' "$to" ;;
esac
