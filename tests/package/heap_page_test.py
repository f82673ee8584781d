"""Holds the page of `calm heap --html`, of one profile and of two, to its promises in a real browser: what it draws,
zooms, counts and finds, with a mouse, with keys, on a phone, and that it asks no network for anything."""
import os
import sys
import tempfile
import unittest

import browser
from heap_test import packages_reason
from profiles import Writer
from support import calm

MIB = 1 << 20
LONG = ("store::Table<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, std::map<int, "
        "store::Row> >::insert(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)")
MAIN = ("main", "/src/main.cpp", 3)
EVIL = "</script><script>document.title='broken'</script><b title=\"x\">&amp;"


def profile():
    """72 MiB live in 2007 blocks: insert 64 (of which 16 through load), read 8, and much that was freed by gone."""
    return (Writer()
            .add([("operator new(unsigned long)", "", 0), (LONG, "/src/store/table.hpp", 20), MAIN],
                 [4, 48 * MIB, 4, 48 * MIB])
            .add([(LONG, "/src/store/table.hpp", 20), ("load", "/src/load.cpp", 7), MAIN], [3, 16 * MIB, 3, 16 * MIB])
            .add([("read", "/src/read.cpp", 5), ("load", "/src/load.cpp", 9), MAIN], [2000, 8 * MIB, 2000, 8 * MIB])
            .add([("gone", "/src/gone.cpp", 1), MAIN], [9, 200 * MIB, 0, 0])
            .add([(EVIL, "", 0), MAIN], [1, 1000, 1, 1000]))


def later():
    """The same some time after: insert 20 MiB less, of which 4 through load, read 24 MiB more, and a new function."""
    return (Writer()
            .add([("operator new(unsigned long)", "", 0), (LONG, "/src/store/table.hpp", 20), MAIN],
                 [5, 60 * MIB, 3, 32 * MIB])
            .add([(LONG, "/src/store/table.hpp", 21), ("load", "/src/load.cpp", 7), MAIN], [4, 20 * MIB, 2, 12 * MIB])
            .add([("read", "/src/read.cpp", 5), ("load", "/src/load.cpp", 9), MAIN], [8000, 32 * MIB, 8000, 32 * MIB])
            .add([("gone", "/src/gone.cpp", 1), MAIN], [9, 200 * MIB, 0, 0])
            .add([("fresh", "/src/fresh.cpp", 1), MAIN], [1, 4 * MIB, 1, 4 * MIB])
            .add([(EVIL, "", 0), MAIN], [1, 1000, 1, 1000]))


def box(words):
    """JavaScript for the box whose spoken name begins so."""
    return "[...document.querySelectorAll('svg g')].find(g => g.getAttribute('aria-label').startsWith(%r))" % words


class GraphTest(browser.PageTest):
    profiles = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="calm-heap-page-")
        cls.path = os.path.join(cls.folder, "page.html")
        calm("heap", *(one().write(os.path.join(cls.folder, one.__name__)) for one in cls.profiles), "--html", cls.path)

    def boxes(self, page):
        return page.value("[...document.querySelectorAll('svg g')].map(g => g.getAttribute('aria-label'))")

    def width(self, page, words):
        return page.value("%s.querySelector('rect').getBoundingClientRect().width" % box(words))

    def rows(self, page):
        return page.value("[...document.querySelectorAll('#sites tbody tr')].map(r => [...r.cells].map(c => "
                          "c.innerText.trim().replace(/\\s+/g, ' ')))")

    def contrasts(self):
        """Of the text of boxes with their box, and of the page's with the page, the least in both themes."""
        channel = "(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; })"
        light = ("(c => { const [r, g, b] = c.match(/[\\d.]+/g).map("
                 "n => c.startsWith('color(') ? n * 255 : +n).map(%s); "
                 "return .2126 * r + .7152 * g + .0722 * b; })" % channel)
        contrast = ("((a, b) => { const [x, y] = [%s(a), %s(b)].sort((p, q) => q - p); "
                    "return (x + .05) / (y + .05); })" % (light, light))
        worst = []
        for dark in (False, True):
            page = self.open(dark=dark)
            worst.append(page.value(
                "Math.min(...[...document.querySelectorAll('svg g text')].map(t => %s(getComputedStyle(t).fill, "
                "getComputedStyle(t.previousSibling).fill)))" % contrast))
            worst.append(page.value("%s(getComputedStyle(document.body).color, "
                                    "getComputedStyle(document.body).backgroundColor)" % contrast))
            background = page.value("%s(getComputedStyle(document.body).backgroundColor)" % light)
            self.assertEqual(background < 0.2, dark)
        return worst


class HeapPage(GraphTest):
    profiles = (profile,)

    def test_boxes_are_as_wide_as_their_memory(self):
        # Seen to fail: equal widths for siblings.
        page = self.open()
        self.assertEqual(page.complaints(), [])
        names = self.boxes(page)
        self.assertEqual(names[0], "whole heap, 72.0 MiB, 100.0 %")
        self.assertIn(LONG + ", 48.0 MiB, 66.7 %", names)
        self.assertIn("read, 8.0 MiB, 11.1 %", names)
        self.assertFalse(any(name.startswith("gone") for name in names))
        whole = self.width(page, "whole heap")
        self.assertGreater(whole, 1000)
        self.assertAlmostEqual(self.width(page, "load, 24.0 MiB") / whole, 1 / 3, delta=0.01)
        self.assertAlmostEqual(self.width(page, "read") / whole, 1 / 9, delta=0.01)

    def test_a_long_name_fits_its_box_and_is_shown_in_full(self):
        # Seen to fail: names not shortened; the short name shown for the full one.
        page = self.open()
        text = page.value("%s.querySelector('text').textContent" % box(LONG))
        self.assertEqual(text, "store::Table<…>::insert")
        page.click(box(LONG))
        self.assertEqual(page.value("document.querySelector('#detail .name').textContent"), LONG)
        for width in (340, 1280):
            narrow = self.open(width=width)
            self.assertTrue(narrow.value(
                "[...document.querySelectorAll('svg g')].every(g => !g.querySelector('text') || g.querySelector('text')"
                ".getBoundingClientRect().right <= g.querySelector('rect').getBoundingClientRect().right)"))

    def test_a_click_zooms_and_the_button_shows_the_whole_heap_again(self):
        # Seen to fail: clicks ignored.
        page = self.open()
        whole = self.width(page, "whole heap")
        self.assertTrue(page.value("document.getElementById('reset').disabled"))
        page.click(box("load, 24.0 MiB"))
        self.assertAlmostEqual(self.width(page, "load, 24.0 MiB"), whole, delta=1)
        self.assertAlmostEqual(self.width(page, "read") / whole, 1 / 3, delta=0.01)
        self.assertFalse(any("48.0 MiB" in name for name in self.boxes(page)))
        self.assertEqual(page.value("document.querySelector('#detail .share').textContent"),
                         "33.3 % of the heap, 33.3 % of its caller")
        page.click("document.getElementById('reset')")
        self.assertAlmostEqual(self.width(page, "load, 24.0 MiB") / whole, 1 / 3, delta=0.01)

    def test_a_search_highlights_and_counts_no_byte_twice(self):
        # Seen to fail: callee and caller both counted; capitals minded.
        page = self.open()
        page.click("document.getElementById('search')")
        page.type("INSERT")
        self.assertEqual(page.value("document.getElementById('found').textContent"), "88.9 %, 64.0 MiB")
        self.assertEqual(page.value("document.querySelectorAll('svg .hit').length"), 2)
        self.assertTrue(page.value("%s.classList.contains('other')" % box("read")))
        self.assertFalse(page.value("%s.classList.contains('other')" % box("operator new")))  # it is below a hit
        page.value("document.getElementById('search').select()")
        page.type("src/")  # a caller and its callees match: they count once
        self.assertEqual(page.value("document.getElementById('found').textContent"), "100.0 %, 72.0 MiB")
        page.value("document.getElementById('search').select()")
        page.type("nothing like it")
        self.assertEqual(page.value("document.getElementById('found').textContent"), "0.0 %, no match")

    def test_toggles_change_widths_and_table(self):
        # Seen to fail: the table not drawn anew.
        page = self.open()
        page.click("document.querySelector('input[name=unit][value=\"1\"]')")
        self.assertIn("read, 2,000 blocks, 99.6 %", self.boxes(page))
        self.assertTrue(page.value("document.querySelector('#sites tbody button').textContent") == "read")
        page.click("document.querySelector('input[name=when][value=\"2\"]')")
        page.click("document.querySelector('input[name=unit][value=\"0\"]')")
        self.assertIn("gone, 200.0 MiB, 73.5 %".replace("200.0", "200"), self.boxes(page))
        self.assertEqual(page.value("document.querySelector('#sites tbody button').textContent"), "gone")
        page.click("document.querySelectorAll('#sites th button')[1]")  # the column sorts, and is what is drawn
        self.assertTrue(page.value("document.querySelector('input[name=unit][value=\"1\"]').checked"))
        self.assertTrue(page.value("document.querySelector('input[name=when][value=\"0\"]').checked"))

    def test_the_table_is_by_site_and_a_site_is_a_search(self):
        # Seen to fail: a site left out; a click that searches nothing.
        page = self.open()
        rows = self.rows(page)
        self.assertEqual(rows[0], ["store::Table<…>::insert /src/store/table.hpp:20", "64.0 MiB · 88.9 %", "7",
                                   "64.0 MiB", "7"])
        self.assertEqual(rows[1], ["read /src/read.cpp:5", "8.0 MiB · 11.1 %", "2,000", "8.0 MiB", "2,000"])
        self.assertEqual(len(rows), 3)
        page.click("document.querySelectorAll('#sites tbody button')[1]")
        self.assertEqual(page.value("document.getElementById('search').value"), "read")
        self.assertEqual(page.value("document.querySelectorAll('svg .hit').length"), 1)

    def test_keys_reach_everything(self):
        # Seen to fail: no box in the order of Tab; Enter ignored.
        page = self.open()
        # Tab passes the toggles and the search and comes to exactly one box.
        for _ in range(12):
            page.key("Tab")
            if page.value("document.activeElement.tagName") == "g":
                break
        focused = "document.activeElement.getAttribute('aria-label')"
        self.assertTrue(page.value(focused).startswith("whole heap"))
        self.assertEqual(page.value("document.querySelectorAll('svg g[tabindex=\"0\"]').length"), 1)
        page.key("ArrowDown")
        page.key("ArrowDown")
        self.assertTrue(page.value(focused).startswith(LONG))
        page.key("ArrowRight")
        self.assertTrue(page.value(focused).startswith("load"))
        self.assertIn("24.0 MiB in 2,003 blocks", page.value("document.getElementById('detail').innerText"))
        whole = self.width(page, "whole heap")
        page.key("Enter", "\r")
        self.assertAlmostEqual(self.width(page, "load"), whole, delta=1)
        self.assertTrue(page.value(focused).startswith("load"))
        page.key("ArrowUp")
        self.assertTrue(page.value(focused).startswith("main"))
        page.key("Escape")
        self.assertAlmostEqual(self.width(page, "load") / whole, 1 / 3, delta=0.01)
        page.key("/", "/")
        self.assertEqual(page.value("document.activeElement.id"), "search")
        self.assertEqual(page.value("document.getElementById('search').value"), "")

    def test_a_name_that_looks_like_markup_stays_a_name(self):
        # Seen to fail: the data not escaped.
        page = self.open()
        self.assertNotEqual(page.value("document.title"), "broken")
        self.assertEqual(page.value("document.querySelectorAll('script').length"), 1)
        names = page.value("[...document.querySelectorAll('#sites tbody button')].map(b => b.title)")
        self.assertIn(EVIL, names)

    def test_nothing_is_asked_of_a_network(self):
        # Seen to fail: a picture from elsewhere.
        page = self.open()
        page.click(box("load"))
        self.assertEqual(page.requests(), ["file://" + self.path])
        with open(self.path) as file:
            text = file.read()
        self.assertNotIn("src=\"", text.replace(EVIL, ""))
        self.assertNotIn("https://", text)

    def test_it_fits_a_phone(self):
        # Seen to fail: no rules for narrow pages; a detail that grows with its name.
        page = self.open(width=360, height=740, touch=True)
        self.assertLessEqual(page.value("document.documentElement.scrollWidth"), 360)
        self.assertGreaterEqual(page.value("%s.getBoundingClientRect().height" % box("main")), 28)  # for a finger
        top = "document.querySelector('svg').getBoundingClientRect().top + scrollY"
        before = page.value(top)
        page.click(box(LONG))
        self.assertEqual(page.value(top), before)  # what is under the finger does not move
        self.assertAlmostEqual(self.width(page, LONG), self.width(page, "whole heap"), delta=1)

    def test_both_themes_are_readable(self):
        """The contrast of a box's text with the box, and of the page's text with the page, is at least 4.5."""
        # Seen to fail: boxes of the dark theme as light as the others.
        worst = self.contrasts()
        self.assertGreater(min(worst), 4.5, worst)


class ChangePage(GraphTest):
    """The page of two profiles: a box's number is signed, its width is all that its stacks gained and lost."""
    profiles = (profile, later)

    def colours(self, page):
        return page.value("Object.fromEntries([...document.querySelectorAll('svg g')].map(g => "
                          "[g.getAttribute('aria-label').split(', ').slice(-2)[0], "
                          "getComputedStyle(g.querySelector('rect')).fill]))")

    def test_boxes_are_as_wide_as_what_changed_and_signed(self):
        # Seen to fail: no page of two profiles; a box as wide as its net growth, in which load hides what it lost.
        page = self.open()
        self.assertEqual(page.complaints(), [])
        self.assertEqual(self.boxes(page), [
            "all changes, +8.0 MiB, 100.0 %", "main, +8.0 MiB, 100.0 %", "load, +20.0 MiB, 58.3 %",
            "read, +24.0 MiB, 50.0 %", LONG + ", -4.0 MiB, 8.3 %", LONG + ", -16.0 MiB, 33.3 %",
            "operator new(unsigned long), -16.0 MiB, 33.3 %", "fresh, +4.0 MiB, 8.3 %"])
        whole = self.width(page, "all changes")
        self.assertAlmostEqual(self.width(page, "load") / whole, 28 / 48, delta=0.01)
        self.assertEqual(page.value("document.querySelector('.facts').innerText.replace(/\\s+/g, ' ')"),
                         "live 72.0 MiB -> 80.0 MiB, +8.0 MiB allocated 272 MiB -> 316 MiB, +44.0 MiB")

    def test_more_is_red_and_less_is_green_the_stronger_the_purer(self):
        # Seen to fail: one colour for both; the same strength for all.
        page = self.open()
        colours = {name: [float(part) for part in text[text.index("(") + 1:-1].replace("srgb", "").split()]
                   for name, text in self.colours(page).items() if text.startswith("color(")}
        reddish = {name: red - green for name, (red, green, _) in colours.items()}
        self.assertGreater(reddish["+24.0 MiB"], 0.2)
        self.assertLess(reddish["-16.0 MiB"], -0.1)
        self.assertGreater(reddish["+24.0 MiB"], reddish["+20.0 MiB"])  # of load, which lost 4
        self.assertGreater(reddish["+20.0 MiB"], reddish["+8.0 MiB"])

    def test_the_table_a_search_and_the_toggles_are_of_the_changes(self):
        # Seen to fail: rows by growth, so that what shrank came last; a search that told a width as growth.
        page = self.open()
        self.assertEqual([row[:3] for row in self.rows(page)], [
            ["store::Table<…>::insert /src/store/table.hpp:20", "-32.0 MiB · 44.4 %", "-4"],
            ["read /src/read.cpp:5", "+24.0 MiB · 33.3 %", "+6,000"],
            ["store::Table<…>::insert /src/store/table.hpp:21", "+12.0 MiB · 16.7 %", "+2"],
            ["fresh /src/fresh.cpp:1", "+4.0 MiB · 5.6 %", "+1"]])
        page.click("document.getElementById('search')")
        page.type("insert")
        self.assertEqual(page.value("document.getElementById('found').textContent"), "41.7 %, -20.0 MiB")
        page.click("document.querySelector('input[name=unit][value=\"1\"]')")
        self.assertIn("read, +6,000 blocks, 100.0 %", self.boxes(page))
        page.click("document.querySelector('input[name=when][value=\"2\"]')")
        self.assertFalse(any(name.startswith("gone") for name in self.boxes(page)))  # as much as before

    def test_both_themes_are_readable(self):
        # Seen to fail: the light theme's red in the dark one.
        worst = self.contrasts()
        self.assertGreater(min(worst), 4.5, worst)

    def test_nothing_is_asked_of_a_network(self):
        # Seen to fail: the graph's script as a file of its own.
        page = self.open(width=360, height=740, touch=True)
        self.assertEqual(page.requests(), ["file://" + self.path])
        self.assertLessEqual(page.value("document.documentElement.scrollWidth"), 360)


if __name__ == "__main__":
    reason = "no headless Chromium: apt-get install chromium-headless-shell" if browser.find() is None else \
        packages_reason()
    if reason is not None:
        print("skipped: " + reason)
        sys.exit(77)
    unittest.main()
