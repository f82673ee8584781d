"""A program on a terminal of a given size, and what is on its screen. Knows the few orders that calm gives: home, clear
to the end of the line or of the screen, bold, the other screen."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios

ORDER = re.compile(rb"\x1b\[(\??[0-9;]*)([A-Za-z])")


class Terminal:
    def __init__(self, words, columns, rows, folder=None, **environment):
        self.columns, self.rows = columns, rows
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        env = {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")}
        self.process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, cwd=folder,
                                        env=dict(env, TERM="xterm", **environment), start_new_session=True)
        os.close(slave)
        self.data, self.pages = b"", 0
        self.lines, self.bold = [""] * rows, set()
        self.row = self.column = 0

    def read(self, seconds=0.0):
        """Takes in what the program wrote; False: nothing came."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:  # the program has ended
            return False
        self.data += data
        self.draw()
        return bool(data)

    def draw(self):
        while self.data:
            order = ORDER.match(self.data)
            if order:
                self.data = self.data[order.end():]
                self.obey(order[1].decode(), order[2].decode())
                continue
            if self.data.startswith(b"\x1b") and len(self.data) < 16:
                return
            end = next((at for at in range(1, len(self.data)) if self.data[at] in b"\x1b\r\n"), len(self.data))
            if self.data[:1] in b"\r\n":
                end = 1
                self.column = 0
                self.row += self.data[:1] == b"\n"
            else:
                try:
                    text = self.data[:end].decode()
                except UnicodeDecodeError:
                    if end == len(self.data) and end < 1 << 16:
                        return  # half a character
                    text = self.data[:end].decode(errors="replace")
                self.put(text)
            self.data = self.data[end:]

    def put(self, text):
        for mark in text:
            if self.column == self.columns:
                self.row, self.column = self.row + 1, 0
            while self.row >= self.rows:
                self.lines = self.lines[1:] + [""]
                self.row -= 1
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[:self.column] + mark + line[self.column + 1:]
            self.column += 1

    def obey(self, number, what):
        if what == "H":
            self.row = self.column = 0
            self.pages += 1
        elif what == "K":
            self.lines[self.row] = self.lines[self.row][:self.column]
        elif what == "J":
            kept = 0 if number == "2" else self.row + 1
            self.lines = self.lines[:kept] + [""] * (self.rows - kept)
        elif what == "m" and number not in ("", "0"):
            self.bold.add(self.row)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def screen(self):
        return "\n".join(line.rstrip() for line in self.lines)

    def ended(self, seconds=60):
        """The exit code."""
        while self.read(0.5) or self.process.poll() is None:
            pass
        return self.process.wait(seconds)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
