"""What mkdocs does for our documentation beyond what it does by itself. No page is written down twice: those outside
docs/ are read where they lie, the interface and the options are read from the headers and from options.def. Links are
those that work in the tree: one to a page becomes a link to where the site has it, one to a source becomes a link to
`extra.sources`, or plain text where that is not set.
"""
import functools
import glob
import os
import posixpath
import re
import sys

from mkdocs.structure.files import File

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "site"))

import reference  # noqa: E402

OUTSIDE = {"README.md": "index.md", "TOUR.md": "tour.md", "CONTRIBUTING.md": "contributing.md",
           "CHANGELOG.md": "changes.md", "SECURITY.md": "security.md", "bench/README.md": "measuring.md",
           "tests/programs/README.md": "programs.md", "src/front/options.def": "options.md"}
WIDE = ".md-grid { max-width: 76rem; }\n"  # for lines of 120 columns
FENCED = re.compile(r"^(```.*?^```$|    .*?$)", re.M | re.S)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")


@functools.lru_cache(maxsize=None)
def outside():
    """Where the site has what lies outside docs/: by its path in the tree."""
    found = dict(OUTSIDE)
    bindings = os.path.join(ROOT, "bindings", "*")
    for path in sorted(glob.glob(os.path.join(bindings, "README.md")) +
                       glob.glob(os.path.join(bindings, "calmalloc", "README.md"))):
        path = os.path.relpath(path, ROOT)
        found[path] = "languages/%s.md" % path.split(os.sep)[1]
    for name in reference.header_names(ROOT):
        found["include/" + name] = reference.place(name)
    return found


def text_of(path, headers):
    """A page's text: that of the file, or what is made of it."""
    if path.startswith("include/"):
        return headers.page(path[len("include/"):])
    if path.endswith(".def"):
        return reference.options_page(ROOT)
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def on_files(files, config):
    headers = reference.Pages(ROOT)
    for path, place in outside().items():
        files.append(File.generated(config, place, content=text_of(path, headers)))
    files.append(File.generated(config, "wide.css", content=WIDE))
    expand(config["nav"], {file.src_uri for file in files.documentation_pages()})
    return files


def expand(nav, pages):
    """Puts pages in place of `folder/*`: those that the rest does not name."""
    named = set(leaves(nav))

    def fill(entries):
        for index, entry in reversed(list(enumerate(entries))):
            if isinstance(entry, dict):
                for value in entry.values():
                    if isinstance(value, list):
                        fill(value)
            elif entry.endswith("*"):
                folder = posixpath.dirname(entry)
                entries[index:index + 1] = [titled(page) for page in sorted(pages - named)
                                            if posixpath.dirname(page) == folder]
    fill(nav)


def titled(page):
    """An entry of the navigation. The bindings' pages begin with what they have in common."""
    folder, name = posixpath.split(page)
    return {name[:-len(".md")].capitalize(): page} if folder == "languages" else page


def leaves(nav):
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for value in entry.values():
                yield from [value] if isinstance(value, str) else leaves(value)


def on_page_markdown(markdown, page, config, files):
    places = outside()
    sources = {place: path for path, place in places.items()}
    here = page.file.src_uri
    origin = sources.get(here, "docs/" + here)

    def rewritten(match):
        mark, text, target = match.groups()
        path, hash_sign, anchor = target.partition("#")
        if not path or ":" in path:
            return match.group(0)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
        place = places.get(path) or (path[len("docs/"):] if path.startswith("docs/") else None)
        if place is not None and files.get_file_from_path(place):
            to = posixpath.relpath(place, posixpath.dirname(here) or ".")
            return "%s[%s](%s%s%s)" % (mark, text, to, hash_sign, anchor)
        if not os.path.exists(os.path.join(ROOT, path)):
            return match.group(0)  # mkdocs says that it leads nowhere
        base = config["extra"].get("sources")
        if base:
            return "[%s](%s/%s%s%s)" % (text, base.rstrip("/"), path, hash_sign, anchor)
        return text if os.path.basename(path) in text else "%s (`%s`)" % (text, path)

    parts = FENCED.split(markdown)
    return "".join(part if index % 2 else LINK.sub(rewritten, part) for index, part in enumerate(parts))
