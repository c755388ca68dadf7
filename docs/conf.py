"""The documentation site (`make docs`): Sphinx reads the Markdown pages of the repository, Breathe the XML that doxygen makes of
include/, autodoc the Python package. The pages read on GitHub too, so what Sphinx needs is made here, when a page is read:

- `<picture>` with a dark and a light source becomes two images, of which the theme shows one;
- `<!-- tab Python -->`, `<!-- tab C++ -->` and, after the last one, `<!-- end tabs -->` become tabs;
- `<!-- toctree GLOB -->` adds pages to the sidebar;
- `<!-- types of the headers -->` becomes the reference of structs and classes.

A page of docs/index.md that does not exist is left out there, and a page that docs/index.md does not name is a warning.
"""

import pathlib
import re
import sys
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import docstring_blocks  # noqa: E402
import stand_in_torch  # noqa: E402

stand_in_torch.install()

project = "Tilewright"
copyright = "2026 The Tilewright authors"  # noqa: A001
version = release = re.search(r"project\(\w+ VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.IGNORECASE)[1]

# The source directory is the repository, so that links to files outside of docs/ work; the command names it (tools/api-docs).
root_doc = "docs/index"
include_patterns = ["docs/**", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/**.md", "examples/**.md", "src/**.md", "tests/data/README.md", "tests/emulator/matrix/README.md"]
exclude_patterns = ["build/**", "docs/conf.py"]
extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_design"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
myst_linkify_fuzzy_links = False
# GitHub shows a page whose headings begin at the second level, as generated ones do.
suppress_warnings = ["myst.header"]

breathe_projects = {"tilewright": str(ROOT / "build/api/xml")}
breathe_default_project = "tilewright"
breathe_default_members = ("members", "undoc-members")
cpp_id_attributes = ["TILEWRIGHT_EXPORT"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
default_role = "literal"

html_theme = "furo"
html_title = f"Tilewright {version}"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]
pygments_style = "default"
pygments_dark_style = "monokai"

PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">\s*<img alt="([^"]*)" src="([^"]+)"[^>]*>\s*</picture>'
)
TOCTREE = re.compile(r"^<!-- toctree (\S+) -->$", re.MULTILINE)
TABS = re.compile(r"^(<!-- tab .*?)^<!-- end tabs -->$", re.MULTILINE | re.DOTALL)


def pictures(match):
    dark, words, light = match.groups()
    images = "".join(f"```{{image}} {file}\n:alt: {words}\n:class: only-{theme}\n```\n\n" for theme, file in (("light", light), ("dark", dark)))
    return f":::{{div}} chart\n{images}:::"


def tabs(match):
    parts = re.split(r"^<!-- tab (.+) -->$", match[1], flags=re.MULTILINE)[1:]
    items = [f"::::{{tab-item}} {name}\n:sync: {name}\n{body}::::\n" for name, body in zip(parts[::2], parts[1::2], strict=True)]
    return ":::::{tab-set}\n" + "".join(items) + ":::::"


def entries(text, folder):
    """Without the entries of toctrees that have no page."""
    return re.sub(r"^[\w./]+\n", lambda m: m[0] if (folder / f"{m[0].strip()}.md").exists() else "", text, flags=re.MULTILINE)


def types_of_headers():
    """A directive for each type that doxygen found, by header."""
    text = ""
    for header in sorted((ROOT / "build/api/xml").glob("*_8h.xml")):
        names = ElementTree.parse(header).findall("./compounddef/innerclass")
        if names:
            text += f"## Types of {header.stem.replace('__', '_').removesuffix('_8h')}.h\n\n"
        for name in names:
            kind = "struct" if name.get("refid").startswith("struct") else "class"
            text += f"```{{doxygen{kind}}} {name.text}\n:members:\n:undoc-members:\n```\n\n"
    return text


def as_sphinx_reads_it(app, page, source):
    source[0] = TOCTREE.sub(r"```{toctree}\n:hidden:\n:glob:\n\n\1\n```", source[0])
    if page == root_doc:
        source[0] = entries(source[0], ROOT / "docs")
    source[0] = source[0].replace("<!-- types of the headers -->", types_of_headers() if page == "docs/api/cpp" else "")
    source[0] = TABS.sub(tabs, PICTURE.sub(pictures, source[0]))


def docstring(app, what, name, thing, options, lines):
    lines[:] = docstring_blocks.as_restructured_text(lines)


def setup(app):
    app.connect("source-read", as_sphinx_reads_it)
    app.connect("autodoc-process-docstring", docstring, priority=400)  # napoleon's is 500
