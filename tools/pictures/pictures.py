"""Makes the pictures of the documentation: what calm's commands show on terminals of 80x24 and 200x50, as SVG, and
their pages in a browser, as PNG, where there is one.

    python3 tools/pictures/pictures.py [FOLDER]     docs/images, or another folder

What a command shows is what a terminal has on its screen once it has ended, or, of `calm top`, after some refreshes.
"""
import html
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.dont_write_bytecode = True
for below in ("support", "package"):
    sys.path.insert(0, os.path.join(ROOT, "tests", below))

import browser  # noqa: E402
from terminal import Terminal  # noqa: E402

CALM = os.path.join(ROOT, "calm")
SIZES = ((80, 24), (200, 50))
LETTER, LINE, EDGE = 7.8, 17, 12  # pixels
COLOURS = {"page": "#14191f", "text": "#dfe5ec"}
PROFILED, BY_COHORT = "profile_kb=16", "sites=hash"
MOMENTS, PAUSE_S, WHILES = 24, 0.1, "12"


def svg(terminal):
    """The screen as a picture. Each line has its length set, so that columns stay under one another in any font."""
    width, height = terminal.columns * LETTER + 2 * EDGE, terminal.rows * LINE + 2 * EDGE
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">' % (
        width, height, width, height),
        '<rect width="100%%" height="100%%" rx="8" fill="%s"/>' % COLOURS["page"],
        '<g fill="%s" font-family="ui-monospace, \'DejaVu Sans Mono\', Menlo, Consolas, monospace" font-size="13" '
        'xml:space="preserve">' % COLOURS["text"]]
    for row, text in enumerate(terminal.screen().splitlines()):
        if text:
            lines.append('<text x="%d" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs"%s>%s</text>' % (
                EDGE, EDGE + LINE * row + 13, len(text) * LETTER, ' font-weight="bold"' if row in terminal.bold else "",
                html.escape(text.replace(" ", "\u00a0"))))
    return "\n".join(lines + ["</g>", "</svg>", ""])


class Shop:
    """The program that is looked at, and a recording of it."""

    def __init__(self, folder, options):
        # Places are shown as they are seen from the folder.
        self.folder, self.program = folder, os.path.join(folder, "shop")
        self.recording = os.path.join(folder, "shop.looks")
        if not os.path.exists(self.program):
            shutil.copy(os.path.join(HERE, "shop.cpp"), folder)
            subprocess.run(["c++", "-g", "-O1", os.path.join(folder, "shop.cpp"), "-o", self.program], check=True)
        library = subprocess.run([CALM, "lib"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=dict(os.environ, LD_PRELOAD=library, CALM_OPTIONS=options))
        self.process.stdout.readline()

    def trade(self):
        self.process.stdin.write(b"x")
        self.process.stdin.flush()
        time.sleep(PAUSE_S)

    def record(self):
        recorder = subprocess.Popen([CALM, "top", "--record", self.recording, "--interval", "0.1",
                                     str(self.process.pid)])
        while not os.path.exists(self.recording) or not os.path.getsize(self.recording):
            time.sleep(0.05)
        for _ in range(MOMENTS):
            self.trade()
        recorder.send_signal(signal.SIGTERM)
        recorder.wait()

    def close(self):
        self.process.kill()
        self.process.wait()


def screen_of_top(terminal, shop):
    """A page with rates, so not the first one."""
    while terminal.pages < 4:
        shop.trade()
        while terminal.read(0.05):
            pass
    terminal.press("q")
    kept = list(terminal.lines)  # the end brings the other screen back
    terminal.ended()
    terminal.lines = kept


def terminals(shop, by_cohort, folder):
    commands = {"heap": ["heap", "--rate", "16", "--", "./shop", WHILES],
                "explain": ["explain", str(shop.process.pid)], "timeline": ["timeline", shop.recording],
                "top": ["top", "--interval", "0.3", str(by_cohort.process.pid)]}
    for name, words in commands.items():
        for columns, rows in SIZES:
            terminal = Terminal([CALM, *words], columns, rows, shop.folder, NO_COLOR="1")
            if name == "top":
                screen_of_top(terminal, by_cohort)
            else:
                terminal.ended()
            path = os.path.join(folder, "terminal-%s-%dx%d.svg" % (name, columns, rows))
            with open(path, "w", encoding="utf-8") as file:
                file.write(svg(terminal))
            print(path)
            terminal.close()


def pages(shop, folder):
    if not browser.find():
        print("no browser, so no pages; `./calm test --setup --full` installs one", file=sys.stderr)
        return
    made = {name: os.path.join(shop.folder, name + ".html") for name in ("heap", "explain", "timeline")}
    for words in (["heap", "--rate", "16", "--html", made["heap"], "--", "./shop", WHILES],
                  ["explain", "--map", made["explain"], str(shop.process.pid)],
                  ["timeline", "--html", made["timeline"], shop.recording]):
        subprocess.run([CALM, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
                       cwd=shop.folder)
    for name, path in made.items():
        page = browser.Page("file://" + path, width=1100, height=900)
        if page.complaints():
            sys.exit("%s: %s" % (name, page.complaints()))
        picture = os.path.join(folder, "page-%s.png" % name)
        page.picture(picture)
        page.close()
        print(picture)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "docs", "images")
    os.makedirs(folder, exist_ok=True)
    work = tempfile.mkdtemp(prefix="calm-pictures-")
    shops = [Shop(work, options) for options in (PROFILED, BY_COHORT)]
    try:
        shops[0].record()
        terminals(*shops, folder)
        pages(shops[0], folder)
    finally:
        for shop in shops:
            shop.close()
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
