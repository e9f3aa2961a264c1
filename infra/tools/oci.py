"""Reproducible OCI image layouts in tar files."""

import hashlib
import io
import json
import pathlib
import tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def as_json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def archive(files):
    """Returns a tar file that depends only on names, modes and contents."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        folders = set()
        for path, mode, content in files:
            for folder in reversed(pathlib.PurePath(path).parents[:-1]):
                if folder not in folders:
                    folders.add(folder)
                    entry = tarfile.TarInfo(str(folder))
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                    tar.addfile(entry)
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


class Layout:
    """Blobs of an image layout by digest."""

    def __init__(self):
        self.blobs = {}

    def add(self, content, media_type):
        """Adds a blob and returns its descriptor."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blobs[digest] = content
        return {"mediaType": media_type, "digest": digest, "size": len(content)}

    def pack(self, manifests):
        """Returns a tar file of the layout with these descriptors in index.json."""
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
        files = [("oci-layout", 0o644, as_json({"imageLayoutVersion": "1.0.0"})), ("index.json", 0o644, as_json(index))]
        blobs = sorted(self.blobs.items())
        return archive(files + [(f"blobs/{digest.replace(':', '/')}", 0o644, content) for digest, content in blobs])


def unpack(path):
    """Returns the descriptors of an archive's index.json, and its blobs by digest. Raises ValueError if a blob does not match its digest."""
    with tarfile.open(path) as tar:
        files = {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}
    blobs = {}
    for name, content in files.items():
        if name.startswith("blobs/sha256/"):
            digest = hashlib.sha256(content).hexdigest()
            if name != f"blobs/sha256/{digest}":
                raise ValueError(f"{name} has the SHA-256 {digest}")
            blobs[f"sha256:{digest}"] = content
    return json.loads(files["index.json"])["manifests"], blobs
