"""Programs that draw: ghostscript and a browser. The pixels must agree, and be the right ones."""

import hashlib
import struct
import zlib

from cases import case
from harness import SCRIPTS, Failure, find_program

WINDOW = (400, 300)
MIDDLE = (200, 100, 50)


@case("ghostscript", "full", ("ghostscript",))
def ghostscript(world):
    program = find_program("gs")
    quiet = ["-q", "-dNOPAUSE", "-dBATCH", "-dSAFER"]
    for device, extra in (
        ("ppmraw", []),
        ("png16m", ["-dNumRenderingThreads=3", "-dTextAlphaBits=4"]),
        ("jpeg", ["-dJPEGQ=70"]),
    ):
        world.run(
            program,
            *quiet,
            f"-sDEVICE={device}",
            "-r90",
            *extra,
            f"-sOutputFile={device}%d",
            SCRIPTS / "page.ps",
            label=f"gs {device}",
        )
        for page in (1, 2, 3):
            world.state(
                f"{device} page {page}", hashlib.sha256((world.work / f"{device}{page}").read_bytes()).hexdigest()
            )
    world.run(program, *quiet, "-sDEVICE=pdfwrite", "-sOutputFile=page.pdf", SCRIPTS / "page.ps", label="gs pdfwrite")
    world.run(program, *quiet, "-sDEVICE=ppmraw", "-r60", "-sOutputFile=again%d", "page.pdf", label="gs reads its pdf")
    world.state("the pdf's page", hashlib.sha256((world.work / "again2").read_bytes()).hexdigest())


@case(
    "chromium",
    "full",
    ("chromium-headless-shell",),
    180,
    own_allocator=("chromium-headless-shell", "headless_shell", "chromium", "chrome", "chrome_crashpad_handler"),
)
def chromium(world):
    """
    A browser exports a malloc of its own, and an executable's names come before any preloaded library's. So here the
    library is loaded and hardly used; the test is that the names which the browser lacks bring no block of one heap to
    the other. Its sandbox does not work for root, so it is off.
    """
    program = find_program("chromium-headless-shell", "chromium", "chrome")
    width, height = WINDOW
    world.run(
        program,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--force-device-scale-factor=1",
        f"--user-data-dir={world.work}/profile",
        f"--window-size={width},{height}",
        "--screenshot=page.png",
        "--virtual-time-budget=3000",
        f"file://{SCRIPTS}/page.html",
    )
    rows, channels = decode_png((world.work / "page.png").read_bytes())
    if (len(rows[0]) // channels, len(rows)) != WINDOW:
        raise Failure(f"the picture is {len(rows[0]) // channels} x {len(rows)} pixels, not {width} x {height}")
    at = width // 2 * channels
    middle = tuple(rows[height // 2][at : at + 3])
    if middle != MIDDLE:
        raise Failure(f"the middle of the picture is {middle}, not {MIDDLE}")
    world.state("pixels", hashlib.sha256(b"".join(rows)).hexdigest())


def decode_png(data):
    """The rows of an eight-bit, not interlaced picture, and how many bytes a pixel has."""
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        raise Failure("the screenshot is no PNG")
    packed, at, kind = b"", 8, None
    while kind != b"IEND":
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        if zlib.crc32(kind + body) != struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0]:
            raise Failure(f"the screenshot's chunk {kind} has a wrong checksum")
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", body)
            if depth != 8 or colour not in (2, 6) or interlace:
                raise Failure("the screenshot is of a kind that this test does not read")
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    channels = 3 if colour == 2 else 4
    raw, stride = zlib.decompress(packed), width * channels
    rows, above = [], bytearray(stride)
    for y in range(height):
        start = y * (stride + 1)
        row = unfilter(raw[start], bytearray(raw[start + 1 : start + 1 + stride]), above, channels)
        rows.append(bytes(row))
        above = row
    return rows, channels


def unfilter(kind, row, above, channels):
    for i in range(len(row)):
        left = row[i - channels] if i >= channels else 0
        up = above[i]
        corner = above[i - channels] if i >= channels else 0
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = up
        elif kind == 3:
            guess = (left + up) // 2
        elif kind == 4:
            guess = min((left, up, corner), key=lambda value: abs(left + up - corner - value))
        else:
            return row
        row[i] = (row[i] + guess) & 255
    return row
