"""Documentation: links point to existing files and headings, and the link check finds broken ones."""

import json
import pathlib
import re
import tempfile
import unittest

import yaml

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

    def assert_reported(self, error, *arguments):
        done = self.check(*(arguments or ["--sources"]))
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertIn(error, done.stderr)


class Sources(Checkout):
    def test_links_of_this_repository_point_to_files_and_headings(self):
        self.assertEqual("", run(DOCS, "--sources").stderr)

    def test_working_links_pass(self):
        self.assertEqual(0, self.check("--sources").returncode)

    def test_link_to_missing_file_is_reported(self):
        self.write("README.md", "[three](docs/three.md)\n")
        self.assert_reported("README.md: the link docs/three.md leads to no file")

    def test_link_to_missing_heading_is_reported(self):
        self.write("docs/one.md", "# One\n\n[Two](two.md#no-part)\n")
        self.assert_reported("docs/one.md: the link two.md#no-part leads to no heading")

    def test_page_missing_in_summary_is_reported(self):
        self.write("docs/how-to/three.md", "# Three\n")
        self.assert_reported("docs/how-to/three.md: docs/SUMMARY.md does not list the page")

    def test_links_and_headings_in_code_fences_are_ignored(self):
        self.write("docs/one.md", "# One\n\n```sh\n# no heading\n[x](missing.md)\n```\n")
        self.assertEqual(0, self.check("--sources").returncode)


class Site(Checkout):
    def test_site_is_built(self):
        done = self.check(self.root / "site")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertTrue((self.root / "site/two.html").exists())

    def test_broken_link_in_html_is_reported(self):
        self.write("docs/one.md", '# One\n\n<a href="three.html">three</a> <a href="two.html#no-part">part</a>\n')
        self.assert_reported("one.html: the link three.html leads to no file of the site", self.root / "site")
        self.assert_reported("one.html: the link two.html#no-part leads to no anchor of the site", self.root / "site")

    def test_page_that_cannot_be_built_is_reported(self):
        self.write("docs/book.toml", BOOK + "unknown = 1\n")
        self.assert_reported("mdbook", self.root / "site")


class RepositoryLinks(unittest.TestCase):
    """`infra/tools/book-links`, which receives the book from mdBook as JSON."""

    def rewritten(self, content, repository=""):
        chapter = {"Chapter": {"name": "Page", "path": "how-to/page.md", "content": content, "sub_items": []}}
        other = {"Chapter": {"name": "Other", "path": "other.md", "content": "", "sub_items": []}}
        book = json.dumps([{}, {"items": [chapter, "Separator", other]}])
        done = run(ROOT / "infra/tools/book-links", input=book, env={"PATH": "/usr/bin:/bin", "WHITTLE_REPOSITORY_URL": repository})
        return json.loads(done.stdout)["items"][0]["Chapter"]["content"]

    def test_links_between_pages_and_external_links_are_unchanged(self):
        for link in ("[a](../other.md#x)", "[a](#here)", "[a](https://example.com/x)", "![a](../images/a.png)"):
            self.assertEqual(link, self.rewritten(link))

    def test_links_to_other_files_become_text_or_point_to_the_repository(self):
        link = "see [`a`](../../infra/chart/README.md#values)."
        self.assertEqual("see `a`.", self.rewritten(link))
        page = "https://github.com/owner/name"
        self.assertEqual(f"see [`a`]({page}/blob/main/infra/chart/README.md#values).", self.rewritten(link, page))

    def test_code_fences_are_unchanged(self):
        fence = "```sh\n[a](../../x.md)\n```\n"
        self.assertEqual(fence, self.rewritten(fence))


def fences(language):
    """Yields the code blocks of a language with the name of their page."""
    for page in sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("infra/**/*.md")]):
        for indent, code in re.findall(rf"^( *)```{language}\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL):
            yield str(page.relative_to(ROOT)), re.sub(f"^{indent}", "", code, flags=re.MULTILINE)


class Examples(unittest.TestCase):
    def test_yaml_and_json_of_examples_parse(self):
        for language, read in (("yaml", lambda code: list(yaml.safe_load_all(code))), ("json", json.loads)):
            for page, code in fences(language):
                with self.subTest(page=page):
                    read(code)

    def test_shell_of_examples_parses(self):
        for page, code in fences("sh"):
            # <name> is a placeholder.
            code = re.sub(r"<[A-Za-z][\w ,':-]*>", "VALUE", code)
            with self.subTest(page=page):
                run("bash", "-n", input=code)


class RelayPolicy(unittest.TestCase):
    def test_relay_policy_of_kops_guide_allows_exactly_the_calls_of_the_relay(self):
        code = (ROOT / "infra/relay/src/aws.rs").read_text()
        calls = {f"{service}:{call.title().replace('_', '')}" for service, call in re.findall(r"\.(sqs|dynamodb)\s*\.(\w+)\(\)", code)}
        self.assertIn("bucket.put(", code)
        calls.add("s3:PutObject")
        guide = (ROOT / "docs/how-to/kops-and-self-managed.md").read_text()
        policy = json.loads(re.search(r"```json\n(\{\s*\"Version\".*?)```", guide, re.DOTALL).group(1))
        self.assertEqual(calls, {statement["Action"] for statement in policy["Statement"]})


class References(unittest.TestCase):
    """Reference pages list everything that the code defines."""

    def test_annotations_page_lists_every_key_of_the_api(self):
        page = (ROOT / "docs/reference/annotations-and-labels.md").read_text()
        # Keys that the code preserves but does not read.
        unused = {"compatibility.karpenter.sh/provider", "compatibility.karpenter.k8s.aws/cluster-name-tagged"}
        keys = set()
        for source in (ROOT / "shared/api/src/names.rs", *ROOT.glob("shared/model/src/*.rs")):
            keys.update(re.findall(r'const [A-Z_]+: &str =\s*"((?:[\w.]*\.)?(?:karpenter\.sh|karpenter\.k8s\.aws|whittle\.sh)/[\w-]+)"', source.read_text()))
        self.assertGreater(len(keys), 50)
        for key in sorted(keys - unused):
            domain, _, name = key.partition("/")
            with self.subTest(key=key):
                # Long lists under one domain omit the domain; the second of a pair is listed by its suffix.
                self.assertTrue(f"`{key}`" in page or f"`{key}:" in page or f"`{name}`" in page or f"`-{name.partition('-')[2]}`" in page)

    def test_conditions_page_lists_every_type_and_reason_of_the_api(self):
        page = (ROOT / "docs/reference/conditions.md").read_text()
        types = re.findall(r'pub const [A-Z_]+: &str = "(\w+)"', (ROOT / "shared/api/src/conditions/types.rs").read_text())
        self.assertGreater(len(types), 20)
        for name in types:
            with self.subTest(name=name):
                self.assertIn(f"`{name}`", page)

    def test_events_page_lists_every_reason_that_the_code_posts(self):
        page, _, _ = (ROOT / "docs/events-and-metrics.md").read_text().partition("## Metrics")
        rows = re.findall(r"^\| (`[^|]+) \| (?:Normal|Warning)[^|]* \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
        listed = {reason for cell, _, _ in rows for reason in re.findall(r"`(\w+)`", cell)}
        posted = event_reasons()
        self.assertGreater(len(posted), 50)
        self.assertEqual(posted, listed)


# Code before the reason of an event.
BEFORE_REASON = (
    r"\bNote::(?:normal|warning)\(\s*[\w&*.]+,\s*",
    r"(?:\bNote|\bWarning|\bLaunchWarning) \{[^{}]*?\breason:\s*",
    r"\bEvent \{[^{}]*?\breason:\s*",
    r"\bEventKind::\w+,\s*",
    r"\b(?:blocked_events|events_on_node|events_on_target|normal_event)\(\s*(?:[\w&.]+,\s*)?",
    r"\blet (?:reason|about) = (?:Some\()?",
    r"\(\"(?:Normal|Warning)\", ",
    r"\bis_empty\(\w+\),\s*",
)


def event_reasons():
    """Reasons of events in the code without its tests. Constants are replaced by their values."""
    folders = [f"shared/{crate}/src" for crate in ("planner", "turns", "executor", "model", "aws-rules")]
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.rs"))]
    code = [path.read_text().partition("#[cfg(test)]")[0] for path in paths if "tests" not in path.relative_to(ROOT).with_suffix("").parts]
    # The Node Termination Handler's reasons are the arms of a `match`.
    _, _, arms = (ROOT / "shared/api/src/names.rs").read_text().partition("pub fn reason(kind: &str)")
    found = set(re.findall(r'=> "([A-Z]\w+)"', arms.partition("\n    }\n")[0]))
    constants = dict(re.findall(r'const ([A-Z_]+): &str = "([A-Z]\w+)";', "\n".join(code)))
    for text in code:
        for name in re.findall(f"(?:{'|'.join(BEFORE_REASON)})" + r'("[A-Z]\w+"|(?:\w+::)*[A-Z][A-Z_]+\b)', text):
            found.add(name.strip('"') if name.startswith('"') else constants.get(name.rpartition("::")[2], name))
    # An event about a condition, whose reason is the condition's type.
    return found - {"LAUNCHED"}
