"""Makes the one HTML page of a report from its sections and pictures: nothing outside the file is needed to read it.

Style and pictures are inline, there is no script, and colours follow the reader's light or dark setting.
"""

import html
import re
from typing import List, Sequence

from .report_plots import INK, PAPER
from .report_tables import Section, Table

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #ffffff; --soft: #f3f5f7; --line: #d5dae0;
        --better: #0b6b3a; --worse: #a8321a; --faint: #5d6875; --band: #eaeef2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #dfe5ec; --paper: #14181d; --soft: #1c2229; --line: #38414b;
          --better: #63cf94; --worse: #ff9a7d; --faint: #98a4b1; --band: #232a32; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 78rem; background: var(--paper); color: var(--ink);
       font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 0.3rem; }
h2 { font-size: 1.3rem; margin: 2.6rem 0 0.5rem; padding-top: 0.6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.6rem 0 0.4rem; }
p, li { max-width: 52rem; }
nav { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; font-size: 0.9rem; }
a { color: inherit; }
.scroll { overflow: auto; width: fit-content; max-width: 100%; max-height: 85vh;
          border: 1px solid var(--line); border-radius: 4px; }
table { border-collapse: separate; border-spacing: 0; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
thead th { position: sticky; top: 0; z-index: 2; background: var(--band); }
tbody th { position: sticky; left: 0; z-index: 1; background: var(--soft); font-weight: 600; text-align: left; }
thead th:first-child { left: 0; z-index: 3; }
.words { text-align: left; }
.wide { white-space: normal; min-width: 16rem; }
.better { color: var(--better); }
.worse { color: var(--worse); font-weight: 600; }
.tie { color: var(--faint); }
.elsewhere { color: var(--faint); font-style: italic; }
.failed { color: var(--worse); font-style: italic; }
.total th, .total td { background: var(--band); }
figure { margin: 1rem 0; overflow-x: auto; }
figure svg { display: block; max-width: 100%; height: auto; min-width: 34rem; color: var(--ink); }
"""

WIDE = 40  # characters: longer cells of words may wrap


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _rich(text: str) -> str:
    """Escaped, with `code` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def _prose(text: str) -> str:
    """A number stays with its sign or unit when a line ends between them."""
    return _rich(re.sub(r"\d (?:%|(?:s|ms|ns|µs|KiB|MiB|GiB|MB|B)\b)", _joined, text))


def _joined(found) -> str:
    return found.group(0).replace(" ", "\N{NO-BREAK SPACE}")


def _cell(table: Table, index: int, text: str, tag: str = "td") -> str:
    kinds = [getattr(text, "kind", "")] if getattr(text, "kind", "") not in ("", "total") else []
    if index in table.words:
        kinds.append("words")
        if len(text) > WIDE:
            kinds.append("wide")
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    scope = ' scope="row"' if tag == "th" else ""
    return f"<{tag}{scope}{kind}>{_rich(text)}</{tag}>"


def _table(table: Table) -> List[str]:
    lines = [f"<h3>{_rich(table.title)}</h3>"] if table.title else []
    if table.rows:
        # A region that scrolls must be reachable from the keyboard.
        label = html.escape(table.title or table.head[0])
        lines += [f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">', "<table>", "<thead><tr>"]
        for index, text in enumerate(table.head):
            words = ' class="words"' if index in table.words else ""
            lines.append(f'<th scope="col"{words}>{_rich(text)}</th>')
        lines += ["</tr></thead>", "<tbody>"]
        for row in table.rows:
            total = ' class="total"' if getattr(row[0], "kind", "") == "total" else ""
            cells = [_cell(table, index, text, "th" if index == 0 else "td") for index, text in enumerate(row)]
            lines.append(f"<tr{total}>" + "".join(cells) + "</tr>")
        lines += ["</tbody>", "</table>", "</div>"]
    if table.note:
        lines.append(f"<p>{_prose(table.note)}</p>")
    return lines


def inline_svg(svg: str, prefix: str, alt: str) -> str:
    """A picture as part of a page: in the page's colours, with names of its own, and no address left in it."""
    svg = svg.replace(PAPER, "").replace(INK, "currentColor")
    svg = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(alt)}"', 1).strip()


def page(title: str, subtitle: str, parts: Sequence[Section], pictures: Sequence = ()) -> str:
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(title)}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        f"<h1>{_rich(title)}</h1>",
        f"<p>{_rich(subtitle)}</p>",
        "<nav>",
    ]
    lines += [f'<a href="#{_anchor(section.title)}">{_rich(section.title)}</a>' for section in parts]
    lines.append("</nav>")
    for section in parts:
        lines += [f'<section id="{_anchor(section.title)}">', f"<h2>{_rich(section.title)}</h2>"]
        lines += [f"<p>{_prose(text)}</p>" for text in section.text]
        if section.items:
            lines += ["<ul>"] + [f"<li>{_prose(item)}</li>" for item in section.items] + ["</ul>"]
        for picture in pictures:
            if section.group is not None and picture.group == section.group:
                svg = inline_svg(picture.svg.read_text(), picture.name, picture.alt)
                lines += ["<figure>", svg, "</figure>"]
        for table in section.tables:
            lines += _table(table)
        lines.append("</section>")
    return "\n".join(lines + ["</body>", "</html>"]) + "\n"
