"""A web service in Python grows. Its leak is in an extension written in C: `calm heap PID`, while requests come, names
the service's line that calls the extension and the extension's line that asks for the memory.

Seen to fail with the extension's free() in place (MENDED), and with the C function left out of the table."""
import http.client
import os
import sys
import sysconfig
import threading
import unittest

from users import Task, needs, run

INCLUDE = sysconfig.get_paths()["include"]


class PythonExtension(Task):
    def service(self, *flags):
        """(the process, its port), with an extension compiled with these flags."""
        run("cc", "-g", "-O1", "-shared", "-fPIC", "-I" + INCLUDE, *flags, self.source("thumbs.c"), "-o",
            self.path("thumbs.so"))
        process = self.start(sys.executable, "-B", self.source("service.py"), PYTHONPATH=self.folder,
                             PYTHONMALLOC="malloc")
        return process, int(process.stdout.readline())

    def ask(self, port, is_over):
        connection, number = http.client.HTTPConnection("127.0.0.1", port), 0
        while not is_over.is_set():
            connection.request("GET", "/thumb/%d" % number)
            connection.getresponse().read()
            number += 1
        connection.close()

    def look(self, *flags):
        """The screen of calm heap while requests come."""
        process, port = self.service(*flags)
        is_over = threading.Event()
        client = threading.Thread(target=self.ask, args=(port, is_over))
        client.start()
        try:
            return self.screen("heap", "--seconds", "5", "--rate", "64", str(process.pid))
        finally:
            is_over.set()
            client.join()

    def test_the_line_that_leaks_is_named(self):
        screen = self.look()
        live, share, words = self.first_row(screen)
        self.assertIn("Handler.do_GET", words)
        self.assertIn(self.line("service.py", "thumbs.make(number)"), words)
        self.assertGreater(share, 50, screen)
        self.assertIn(" through sum_of_pixels " + self.line("thumbs.c", "malloc(PIXEL_BYTES)"), screen)

    def test_mended_it_is_not_named(self):
        screen = self.look("-DMENDED")
        self.assertNotIn("sum_of_pixels", screen)


if __name__ == "__main__":
    if not os.path.exists(os.path.join(INCLUDE, "Python.h")):
        needs.skip("Python's headers are missing; apt-get install python3-dev brings them.")
    unittest.main()
