#!/usr/bin/env python3
"""Shows that check_links.py finds links that lead nowhere and passes those that resolve, and that the site's pages keep theirs."""

import pathlib
import tempfile
import unittest

import check_links

build, markdown = check_links.import_site(pathlib.Path(__file__).resolve().parents[2])


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()

    def write(self, files):
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


class Markdown(Tree):
    def check(self, text):
        self.write({"a.md": text, "docs/b.md": "# B\n\n## What it is, and `why`\n\n## Same\n\n## Same\n", "src/c.cpp": ""})
        return check_links.markdown_findings(self.root, markdown)

    def test_passes_links_that_resolve(self):
        self.assertEqual(self.check("[b](docs/b.md) [c](src/c.cpp) [d](docs) [e](docs/b.md#what-it-is-and-why) [f](#here)\n"
                                    "[g](https://example.org/x#y) [`h`](docs/b.md#same-1): `code`\n\n# Here\n"), [])

    def test_finds_a_missing_file(self):
        self.assertEqual(self.check("text\n[b](docs/c.md)"), ["a.md:2: docs/c.md: the file does not exist"])

    def test_finds_a_missing_heading(self):
        self.assertEqual(self.check("[b](docs/b.md#other)"), ["a.md:1: docs/b.md#other: the heading does not exist"])
        self.assertEqual(len(self.check("[b](#b)\n")), 1)

    def test_finds_a_link_whose_text_is_code(self):
        self.assertEqual(len(self.check("[`b`](docs/c.md): `code`")), 1)

    def test_finds_a_link_out_of_the_tree(self):
        self.assertEqual(len(self.check("[b](../b.md)")), 1)

    def test_skips_code(self):
        self.assertEqual(self.check("`[](auto x)`\n```cpp\n[](auto x) {}\n# no heading\n```\n"), [])


class Site(Tree):
    def check(self, body, headers=()):
        self.write({"index.html": f'<a id="top"></a>{body}', "files.html": '<a href="endpoint_8hpp.html">', "endpoint_8hpp.html": ""})
        return check_links.site_findings(self.root, headers)

    def test_passes_links_that_resolve(self):
        self.assertEqual(self.check('<a href="#top">a</a><a href="files.html">b</a><a href="https://example.org">c</a>'), [])

    def test_finds_a_missing_page_and_a_missing_anchor(self):
        self.assertEqual(len(self.check('<a href="x.html">a</a><a href="#x">b</a><a href="files.html#x">c</a>')), 3)

    def test_finds_what_is_loaded_from_the_network(self):
        for body in ('<script src="https://example.org/x.js"></script>', '<img src="//example.org/x.png">',
                     '<link rel="stylesheet" href="https://example.org/x.css">'):
            self.assertEqual(len(self.check(body)), 1, body)

    def test_checks_style_sheets_and_scripts(self):
        self.write({"x.css": "@import 'https://example.org/x.css'; a { background: url(missing.png) }", "x.js": "[ 'missing.html' ]"})
        self.assertEqual(len(self.check("")), 3)

    def test_finds_a_header_without_page(self):
        self.assertEqual(self.check("", ["include/warpverbs/host/endpoint.hpp"]), [])
        self.assertEqual(len(self.check("", ["include/warpverbs/host/end.hpp"])), 1)


class Build(Tree):
    def test_leads_links_to_the_sites_pages(self):
        self.write({"docs/site/index.md": "# Start\n[a](../a.md#one-two) [b](../../include/warpverbs/host) [c](../../src/c.cpp)\n"
                                          "[d](../../include/warpverbs/host/e.hpp) [f](https://example.org)\n",
                    "docs/a.md": "# A\n## One two\n", "src/c.cpp": "int c;\n", "include/warpverbs/host/e.hpp": ""})
        pages = build.Pages(self.root, {"include/warpverbs/host/e.hpp"})
        text = pages.stage("docs/site/index.md")
        for target in ("@ref docs_a__one-two", "@ref warpverbs::host", "@ref src_c_cpp", "@ref warpverbs/host/e.hpp",
                       "https://example.org"):
            self.assertIn(f"]({target})", text)
        self.assertIn("## One two {#docs_a__one-two}", pages.stage("docs/a.md"))
        self.assertIn("@include{lineno} src/c.cpp", pages.stage("src/c.cpp"))

    def test_refuses_a_header_without_description(self):
        with self.assertRaises(SystemExit):
            build.stage_header("#pragma once\n\nnamespace warpverbs::inline v0_2::host {\n", "x.hpp", None)


if __name__ == "__main__":
    unittest.main()
