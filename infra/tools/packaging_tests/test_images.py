"""Images of the relay, and their combination into one index."""

import json
import pathlib
import struct
import sys
import tempfile
import unittest

from support import ROOT, run

sys.path.insert(0, str(ROOT / "infra/tools"))
import oci  # noqa: E402


def static_program(machine):
    """Returns an ELF header without program headers, which relay-image accepts as a static program."""
    return struct.pack("<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 2, machine, 1, 0, 64, 0, 0, 64, 56, 0, 64, 0, 0)


def write_images(folder):
    certificates = folder / "certificates"
    certificates.write_text("certificates")
    archives = []
    for architecture, machine in (("arm64", 183), ("amd64", 62)):
        program, archive = folder / architecture, folder / f"{architecture}.tar"
        program.write_bytes(static_program(machine))
        run(ROOT / "infra/tools/relay-image", program, archive, "--certificates", certificates)
        archives.append(archive)
    return archives


class Index(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.archives = write_images(self.folder)
        self.index = self.folder / "index.tar"

    def combine(self, *archives, check=True):
        return run(ROOT / "infra/tools/relay-index", self.index, *archives, "--name", "relay:1", check=check)

    def test_index_names_the_image_of_each_architecture(self):
        output = self.combine(*self.archives).stdout
        (described,), blobs = oci.unpack(self.index)
        self.assertEqual(oci.INDEX, described["mediaType"])
        self.assertEqual("relay:1", described["annotations"]["org.opencontainers.image.ref.name"])
        self.assertIn(described["digest"], output)
        manifests = json.loads(blobs[described["digest"]])["manifests"]
        self.assertEqual(["amd64", "arm64"], [manifest["platform"]["architecture"] for manifest in manifests])
        for manifest in manifests:
            image = json.loads(blobs[manifest["digest"]])
            config = json.loads(blobs[image["config"]["digest"]])
            self.assertEqual(manifest["platform"]["architecture"], config["architecture"])
            self.assertTrue(all(layer["digest"] in blobs for layer in image["layers"]))

    def test_index_is_reproducible_in_any_order_of_archives(self):
        self.combine(*self.archives)
        first = self.index.read_bytes()
        self.combine(*reversed(self.archives))
        self.assertEqual(first, self.index.read_bytes())

    def test_two_images_for_one_architecture_are_rejected(self):
        refused = self.combine(self.archives[0], self.archives[0], check=False)
        self.assertIn("so is another archive", refused.stderr)

    def test_damaged_archives_are_rejected(self):
        content = self.archives[0].read_bytes()
        self.archives[0].write_bytes(content.replace(b"/usr/local/bin/relay", b"/usr/local/bin/other", 1))
        self.assertIn("has the SHA-256", self.combine(*self.archives, check=False).stderr)
