"""Documents: links lead to files and headings that are there, and the check of links finds those that do not."""

import json
import pathlib
import tempfile
import unittest

from support import ROOT, run

DOCS = ROOT / "infra/tools/docs"
BOOK = '[book]\ntitle = "Book"\nsrc = "."\n'


class Checkout(unittest.TestCase):
    """A checkout with a page that links to the second one."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("docs/book.toml", BOOK)
        self.write("docs/SUMMARY.md", "# Summary\n\n- [One](one.md)\n- [Two](two.md)\n")
        self.write("docs/one.md", "# One\n\n[Two](two.md#a-part)\n")
        self.write("docs/two.md", "# Two\n\n## A part\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def check(self, *arguments):
        return run(DOCS, "--root", self.root, *arguments, check=False)

    def refused(self, mistake, *arguments):
        done = self.check(*(arguments or ["--sources"]))
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertIn(mistake, done.stderr)


class Sources(Checkout):
    def test_links_of_this_repository_lead_to_files_and_headings(self):
        self.assertEqual("", run(DOCS, "--sources").stderr)

    def test_links_that_lead_somewhere_pass(self):
        self.assertEqual(0, self.check("--sources").returncode)

    def test_link_to_missing_file_is_refused(self):
        self.write("README.md", "[three](docs/three.md)\n")
        self.refused("README.md: the link docs/three.md leads to no file")

    def test_link_to_missing_heading_is_refused(self):
        self.write("docs/one.md", "# One\n\n[Two](two.md#no-part)\n")
        self.refused("docs/one.md: the link two.md#no-part leads to no heading")

    def test_page_without_place_in_summary_is_refused(self):
        self.write("docs/how-to/three.md", "# Three\n")
        self.refused("docs/how-to/three.md: docs/SUMMARY.md does not list the page")

    def test_text_in_fences_holds_no_links_and_no_headings(self):
        self.write("docs/one.md", "# One\n\n```sh\n# no heading\n[x](missing.md)\n```\n")
        self.assertEqual(0, self.check("--sources").returncode)


class Site(Checkout):
    def test_site_is_built(self):
        done = self.check(self.root / "site")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertTrue((self.root / "site/two.html").exists())

    def test_link_in_html_that_leads_nowhere_is_refused(self):
        self.write("docs/one.md", '# One\n\n<a href="three.html">three</a> <a href="two.html#no-part">part</a>\n')
        self.refused("one.html: the link three.html leads to no file of the site", self.root / "site")
        self.refused("one.html: the link two.html#no-part leads to no anchor of the site", self.root / "site")

    def test_page_that_cannot_be_built_is_refused(self):
        self.write("docs/book.toml", BOOK + "unknown = 1\n")
        self.refused("mdbook", self.root / "site")


class RepositoryLinks(unittest.TestCase):
    """`infra/tools/book-links`, which mdBook gives the book as JSON."""

    def rewritten(self, content, repository=""):
        chapter = {"Chapter": {"name": "Page", "path": "how-to/page.md", "content": content, "sub_items": []}}
        other = {"Chapter": {"name": "Other", "path": "other.md", "content": "", "sub_items": []}}
        book = json.dumps([{}, {"items": [chapter, "Separator", other]}])
        done = run(ROOT / "infra/tools/book-links", input=book, env={"PATH": "/usr/bin:/bin", "WHITTLE_REPOSITORY_URL": repository})
        return json.loads(done.stdout)["items"][0]["Chapter"]["content"]

    def test_links_between_pages_and_to_the_outside_stay(self):
        for link in ("[a](../other.md#x)", "[a](#here)", "[a](https://example.com/x)", "![a](../images/a.png)"):
            self.assertEqual(link, self.rewritten(link))

    def test_links_to_other_files_are_text_or_lead_to_the_repository(self):
        link = "see [`a`](../../infra/chart/README.md#values)."
        self.assertEqual("see `a`.", self.rewritten(link))
        page = "https://github.com/owner/name"
        self.assertEqual(f"see [`a`]({page}/blob/main/infra/chart/README.md#values).", self.rewritten(link, page))

    def test_fences_stay(self):
        fence = "```sh\n[a](../../x.md)\n```\n"
        self.assertEqual(fence, self.rewritten(fence))
