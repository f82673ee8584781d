"""Holds `calm export` to what collectors are promised: numbers and profiles that their parsers read and that are those
of the process, bounded clients, and an end that leaves the processes as they were.

What each test was seen to fail on is noted in it.
"""
import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from support import HERE, ROOT, InFolder, calm, needs, run, wait_for

import pinned

sys.path.append(os.path.join(ROOT, "tools", "calm"))
sys.dont_write_bytecode = True

KEPT_BYTES = 60000 * 112 + 20000 * 1024 + (9 << 20)  # as watched.c has them, in their classes at most
PATIENCE_S = 60
KEYS = {"block", "untouched", "cached", "free_in_slabs", "dirty", "metadata", "resident", "process_swapped"}


class Export(InFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.path("watched")
        run("cc", "-g", "-O1", os.path.join(HERE, "watched.c"), "-o", cls.program)

    def watched(self, way, **environment):
        process = subprocess.Popen([self.program, way], env=dict(os.environ, LD_PRELOAD=self.library, **environment),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.folder)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def end(self, process):
        process.kill()
        process.wait()
        for file in (process.stdin, process.stdout, process.stderr):
            if file is not None:
                file.close()

    def serve(self, *processes, words=()):
        """A server of these, and the address of its pages."""
        server = subprocess.Popen([os.path.join(ROOT, "calm"), "export", "--port", "0", *words] +
                                  [str(process.pid) for process in processes], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, server)
        lines = iter(server.stderr.readline, "")
        line = next((line for line in lines if not line.startswith(("calm: preparing", "calm: no packages"))), "")
        self.assertRegex(line, r"^calm: http://127\.0\.0\.1:\d+/metrics; Ctrl-C ends it\.$")
        return server, re.search(r"http://[^/]*", line).group(0)

    def get(self, url, **headers):
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=PATIENCE_S) as answer:
            return answer.headers.get_content_type(), answer.read()

    def numbers(self, text):
        """{name: {(pid, part): value}} as the reference parser of OpenMetrics has them."""
        try:
            from prometheus_client.openmetrics.parser import text_string_to_metric_families
        except ImportError:
            needs.lacking("prometheus_client could not be fetched from the package index.")
        found = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = (int(sample.labels["pid"]), sample.labels.get("part"))
                found.setdefault(sample.name, {})[key] = sample.value
        return found

    def test_the_numbers_are_the_processs_and_their_parser_reads_them(self):
        # Seen to fail: no EOF at the end; a unit that the name does not end with; parts that leave out stacks.
        process, other = self.watched("idle"), self.watched("churn")
        _, url = self.serve(process, other)
        kind, text = self.get(url + "/metrics", Accept="application/openmetrics-text;version=1.0.0")
        self.assertEqual(kind, "application/openmetrics-text")
        found = self.numbers(text.decode())
        self.assertEqual(set(found), {"calmalloc_up", "calmalloc_process_rss_bytes"} |
                         {"calmalloc_%s_bytes" % key for key in KEYS})
        key = (process.pid, None)
        self.assertEqual(found["calmalloc_up"], {key: 1, (other.pid, None): 1})
        self.assertAlmostEqual(found["calmalloc_block_bytes"][key], KEPT_BYTES, delta=KEPT_BYTES / 20)
        parts = {part: value for (pid, part), value in found["calmalloc_process_rss_bytes"].items()
                 if pid == process.pid}
        self.assertEqual(set(parts), {"heap", "file_maps", "stacks", "other_anonymous"})
        self.assertEqual(parts["heap"], found["calmalloc_resident_bytes"][key])
        with open("/proc/%d/smaps_rollup" % process.pid) as file:
            rss = int(re.search(r"(?m)^Rss: +(\d+) kB$", file.read()).group(1)) << 10
        self.assertEqual(sum(parts.values()), rss)

    def test_prometheus_and_node_exporter_read_it_too(self):
        # Seen to fail: OpenMetrics' content type whoever asks.
        try:
            from prometheus_client.parser import text_string_to_metric_families
        except ImportError:
            needs.lacking("prometheus_client could not be fetched from the package index.")
        _, url = self.serve(self.watched("idle"))
        kind, text = self.get(url + "/metrics")
        self.assertEqual(kind, "text/plain")
        names = {family.name for family in text_string_to_metric_families(text.decode())}
        self.assertIn("calmalloc_block_bytes", names)

    def test_what_the_program_asked_for_is_told_where_it_is_known(self):
        # Seen to fail: a 0 where it is not known.
        process, other = self.watched("idle", CALM_OPTIONS="profile_kb=16"), self.watched("idle")
        calm("export", "--textfile", self.path("asked.prom"), str(process.pid), str(other.pid))
        with open(self.path("asked.prom")) as file:
            found = self.numbers(file.read())["calmalloc_requested_bytes"]
        self.assertEqual(set(found), {(process.pid, None)})
        asked = 60000 * 100 + 20000 * 900 + (9 << 20)
        self.assertAlmostEqual(found[process.pid, None], asked, delta=asked / 4)

    def test_a_label_cannot_break_out_of_its_quotes(self):
        # Seen to fail: labels as they are.
        odd = self.path('a"} 1\\')
        os.symlink(self.program, odd)
        process = subprocess.Popen([odd, "idle"], env=dict(os.environ, LD_PRELOAD=self.library),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        calm("export", "--textfile", self.path("odd.prom"), str(process.pid))
        with open(self.path("odd.prom")) as file:
            text = file.read()
        self.assertEqual(self.numbers(text)["calmalloc_up"], {(process.pid, None): 1})

    def test_the_file_is_replaced_whole(self):
        # Seen to fail: the file written where it is; a file that only its owner may read.
        path, process = self.path("one.prom"), self.watched("idle")
        calm("export", "--textfile", path, str(process.pid))
        first = os.stat(path)
        self.assertEqual(first.st_mode & 0o777, 0o644)
        with open(path) as before:
            calm("export", "--textfile", path, str(process.pid))
            self.assertTrue(before.read().endswith("# EOF\n"))
        self.assertNotEqual(os.stat(path).st_ino, first.st_ino)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(".calm-")], [])

    def test_a_link_is_followed_and_what_is_no_regular_file_is_left_as_it_is(self):
        # Seen to fail: a device, a pipe and a link replaced by a file.
        process = str(self.watched("idle").pid)
        link, new = self.path("link.prom"), self.path("dangling.prom")
        target = self.file("behind.prom", "")
        os.symlink(target, link)
        os.symlink(self.path("made.prom"), new)
        for path, written in ((link, target), (new, self.path("made.prom"))):
            calm("export", "--textfile", path, process)
            self.assertTrue(os.path.islink(path))
            with open(written) as file:
                self.assertTrue(file.read().endswith("# EOF\n"))
        pipe, to_pipe, folder = self.path("pipe"), self.path("to_pipe"), self.path("sub")
        os.mkfifo(pipe)
        os.symlink(pipe, to_pipe)
        os.mkdir(folder)
        for path in (pipe, to_pipe, folder):
            before = os.lstat(path)
            done = calm("export", "--textfile", path, process, check=False)
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (1, "", 1), done.stderr)
            self.assertIn("is not a regular file", done.stderr)
            self.assertEqual((os.lstat(path).st_mode, os.lstat(path).st_ino), (before.st_mode, before.st_ino))

    def test_a_file_is_written_on_until_no_process_is_left(self):
        # Seen to fail: an end that is not noticed.
        path, process = self.path("on.prom"), self.watched("leave")
        writer = subprocess.Popen([os.path.join(ROOT, "calm"), "export", "--interval", "1", "--textfile", path,
                                   str(process.pid)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, writer)
        self.assertTrue(wait_for(lambda: os.path.exists(path)))
        process.stdin.close()
        self.assertEqual(process.wait(), 0)
        self.assertIn("no process is left", writer.communicate(timeout=PATIENCE_S)[1])
        self.assertEqual(writer.returncode, 0)
        with open(path) as file:
            self.assertEqual(self.numbers(file.read()), {"calmalloc_up": {(process.pid, None): 0}})

    def test_a_process_that_ended_is_said_to_have_and_the_others_are_served(self):
        # Seen to fail: its last numbers served on.
        process, other = self.watched("leave"), self.watched("idle")
        _, url = self.serve(process, other)
        self.assertIn(b"calmalloc_block_bytes{pid=\"%d\"" % process.pid, self.get(url + "/metrics")[1])
        process.stdin.close()
        process.wait()
        gone = "calmalloc_up{pid=\"%d\",program=\"watched\"} 0\n" % process.pid

        def text_after():
            text = self.get(url + "/metrics")[1].decode()
            return text if gone in text else None
        found = self.numbers(wait_for(text_after))
        self.assertEqual(found["calmalloc_up"], {(process.pid, None): 0, (other.pid, None): 1})
        self.assertEqual({pid for name, rows in found.items() for pid, _ in rows if name != "calmalloc_up"},
                         {other.pid})
        with self.assertRaises(urllib.error.HTTPError) as failed:
            self.get("%s/%d/debug/pprof/heap" % (url, process.pid))
        with failed.exception as answer:
            self.assertEqual(answer.code, 503)
            self.assertIn(b"process %d" % process.pid, answer.read())

    def profile(self, url):
        import heap_profile
        try:
            heap_profile.need_packages()
        except Exception as trouble:
            needs.lacking(str(trouble))
        try:
            return heap_profile.decode(gzip.decompress(self.get(url)[1]), "the profile")
        except urllib.error.HTTPError as failed:
            with failed:
                said = failed.read().decode()
            if "could not be fetched" in said:
                needs.lacking(said)
            raise

    def test_a_profile_is_served_as_go_programs_serve_theirs(self):
        # Seen to fail: names left out, a file that says which of its numbers counts by the wrong name.
        process = self.watched("grow")
        _, url = self.serve(process, words=("--rate", "16"))
        profile = wait_for(lambda: (lambda found: found.stacks and found)(self.profile(url + "/debug/pprof/allocs")))
        self.assertGreater(profile.total("all_bytes"), 0)
        names = {name for stack in profile.stacks for location in stack.locations for name, _, _ in location.lines}
        self.assertIn("main", names)
        self.assertTrue({"replace", "leak"} & names, names)
        later = self.profile("%s/%d/debug/pprof/heap" % (url, process.pid))
        self.assertGreaterEqual(later.total("all_bytes"), profile.total("all_bytes"))

    def test_with_seconds_it_has_what_came_in_that_time(self):
        # Seen to fail: the whole of it.
        process = self.watched("churn")
        _, url = self.serve(process, words=("--rate", "4"))
        self.profile(url + "/debug/pprof/allocs")
        time.sleep(3)
        part = self.profile(url + "/debug/pprof/allocs?seconds=1").total("all_bytes")
        whole = self.profile(url + "/debug/pprof/allocs").total("all_bytes")
        self.assertTrue(0 < part < whole * 0.75, (part, whole))

    def collectors(self, what, body):
        """What the code of Prometheus, or of Parca and Pyroscope, makes of a body: scrape/main.go."""
        needs.here("go")
        program, source = self.path("scrape"), os.path.join(HERE, "scrape")
        go = dict(os.environ, GOTOOLCHAIN="local", GOFLAGS="-mod=readonly", GOTELEMETRY="off")
        if not os.path.exists(program):
            if run("go", "mod", "download", env=go, cwd=source, check=False).returncode != 0:
                needs.lacking("the Go modules of collectors could not be fetched.")
            run("go", "build", "-o", program, ".", env=go, cwd=source)
        return json.loads(subprocess.run([program, what], input=body, stdout=subprocess.PIPE, check=True).stdout)

    def test_the_code_of_parca_and_pyroscope_reads_the_profile_as_we_do(self):
        # Seen to fail: a function's number that no function has; sums of a type in another's place.
        import heap_profile
        process = self.watched("grow")
        _, url = self.serve(process, words=("--rate", "16"))
        wait_for(lambda: self.profile(url + "/debug/pprof/allocs").stacks)
        body = self.get(url + "/debug/pprof/allocs")[1]
        ours = heap_profile.decode(gzip.decompress(body), "the profile")
        found = self.collectors("profile", body)
        self.assertEqual(found["Parca"], found["Pyroscope"])
        values = dict(zip(found["Parca"]["Types"], found["Parca"]["Values"]))
        self.assertEqual(values, {
            "alloc_objects/count": ours.total("all_blocks"), "alloc_space/bytes": ours.total("all_bytes"),
            "inuse_objects/count": ours.total("live_blocks"), "inuse_space/bytes": ours.total("live_bytes")})
        self.assertEqual(found["Parca"]["Functions"]["main"], found["Parca"]["Values"])
        self.assertTrue({"replace", "leak"} & set(found["Parca"]["Functions"]), found)

    def test_node_exporters_parser_reads_the_numbers(self):
        # Seen to fail: labels as they are, of a program whose name has a quote.
        odd = self.path('b"} 1\\')
        os.symlink(self.program, odd)
        process = subprocess.Popen([odd, "idle"], env=dict(os.environ, LD_PRELOAD=self.library),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        path, key = self.path("node.prom"), "pid=%d;" % process.pid
        calm("export", "--textfile", path, str(process.pid))
        _, url = self.serve(process)
        with open(path, "rb") as file:
            bodies = [file.read(), self.get(url + "/metrics")[1]]
        for body in bodies:
            found = self.collectors("numbers", body)
            self.assertEqual(set(found), {"calmalloc_up", "calmalloc_process_rss_bytes"} |
                             {"calmalloc_%s_bytes" % name for name in KEYS})
            self.assertEqual(found["calmalloc_up"], {key: 1})
            self.assertAlmostEqual(found["calmalloc_block_bytes"][key], KEPT_BYTES, delta=KEPT_BYTES / 20)

    def test_gos_pprof_reads_it_from_the_server(self):
        # Seen to fail: a path that is not there.
        needs.here("go")
        process = self.watched("grow")
        _, url = self.serve(process, words=("--rate", "16"))
        wait_for(lambda: self.profile(url + "/debug/pprof/heap").stacks)
        for kind, word in (("allocs", "alloc_space"), ("heap", "inuse_space")):
            text = run("go", "tool", "pprof", "-top", "%s/debug/pprof/%s" % (url, kind),
                       env=dict(os.environ, PPROF_TMPDIR=self.folder)).stdout
            self.assertIn("Type: " + word, text)
            self.assertRegex(text, r"(?m) (replace|leak)$")

    def test_what_is_not_there_is_not_found(self):
        _, url = self.serve(self.watched("idle"))
        self.assertEqual(self.get(url + "/")[1], b"/metrics\n/debug/pprof/heap\n/debug/pprof/allocs\n")
        for path, code in (("/debug/pprof/goroutine", 404), ("/1/debug/pprof/heap", 404), ("/../etc/passwd", 404),
                           ("/debug/pprof/heap?seconds=x", 400), ("/debug/pprof/heap?seconds=-1", 400),
                           ("/debug/pprof/heap?seconds=999999", 400)):
            with self.assertRaises(urllib.error.HTTPError) as failed:
                self.get(url + path)
            with failed.exception as answer:
                self.assertEqual(answer.code, code, path)

    def test_only_this_machine_is_served_unless_told(self):
        # Seen to fail: all addresses by default.
        _, url = self.serve(self.watched("idle"))
        port = int(url.rpartition(":")[2])
        with open("/proc/net/tcp") as file:
            places = [line.split()[1] for line in file if line.split()[1].endswith(":%04X" % port)]
        self.assertIn("0100007F:%04X" % port, places)
        self.assertNotIn("00000000:%04X" % port, places)

    def test_slow_and_hostile_clients_are_cut_off(self):
        # Seen to fail: a time for each byte and none for the whole, with which the one that drips stays; no bound on
        # how many there are, with which all of them are held.
        _, url = self.serve(self.watched("idle"))
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        slow = [socket.create_connection(address) for _ in range(40)]
        for one in slow:
            self.addCleanup(one.close)
        many = slow[0]
        for garbage in (b"\0" * 200000, b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 50000):
            with socket.create_connection(address) as client:
                try:
                    client.sendall(garbage)
                except OSError:
                    pass  # it was sent away

        def drip():
            try:
                many.sendall(b"G")
                time.sleep(0.2)
                return False
            except OSError:
                return True
        self.assertTrue(wait_for(drip, PATIENCE_S), "who sends a byte now and then stays for ever")

        def is_served():
            try:
                return b"# EOF" in self.get(url + "/metrics")[1]
            except OSError:
                return False
        self.assertTrue(wait_for(is_served, PATIENCE_S), "nobody is served any more")
        for one in slow[1:]:
            one.settimeout(PATIENCE_S)
            try:
                self.assertNotIn(b"200", one.recv(100))
            except ConnectionError:
                pass

    def test_many_clients_do_not_make_many_threads(self):
        # Seen to fail: no bound on clients.
        server, url = self.serve(self.watched("idle"))
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        for _ in range(100):
            self.addCleanup(socket.create_connection(address).close)
        time.sleep(1)
        self.assertLess(len(os.listdir("/proc/%d/task" % server.pid)), 30)

    def is_profiled(self, process):
        from watched import Watched
        watched = Watched(process.pid)
        return watched.number("sample.state", size=4) == watched.facts["sample.on"]

    def test_ctrl_c_ends_it_and_leaves_the_process_as_it_was(self):
        # Seen to fail: profilers left on; a traceback.
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.watched("churn")
            server, url = self.serve(process)
            self.profile(url + "/debug/pprof/heap")
            self.assertTrue(self.is_profiled(process))  # or nothing below would be shown
            server.send_signal(number)
            self.assertEqual(server.communicate(timeout=PATIENCE_S), ("", ""))
            self.assertEqual(server.returncode, 0)
            self.assertTrue(wait_for(lambda: not self.is_profiled(process), 30))

    def test_what_goes_wrong_is_one_sentence(self):
        with subprocess.Popen(["sleep", "1000"]) as other:
            self.addCleanup(other.kill)
            process = str(self.watched("idle").pid)
            for code, words in ((2, ("export",)), (2, ("export", process)),
                                (2, ("export", "--port", "x", process)), (2, ("export", "--port", "70000", process)),
                                (2, ("export", "--port", "0", "--textfile", "x", process)),
                                (2, ("export", "--port", "0", "no")),
                                (2, ("export", "--port", "0", "--interval", "1", process)),
                                (1, ("export", "--port", "0", str(other.pid))),
                                (1, ("export", "--port", "0", "--bind", "no.such.address.invalid", process)),
                                (1, ("export", "--textfile", "/no/such/folder/x", process))):
                done = calm(*words, check=False)
                self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (code, "", 1),
                                 (words, done.stderr))
                self.assertTrue(done.stderr.startswith("calm: "), done.stderr)
            other.kill()


if __name__ == "__main__":
    # Where the parser cannot be fetched, the tests that read with it are skipped, and say so.
    pinned.enter(os.path.join(HERE, "requirements.txt"),
                 os.path.join(os.environ.get("CALM_BUILD_DIR") or os.path.join(ROOT, "build"), "export"))
    needs.main()
