"""Runs the recipes of docs/recipes.md: each command as the page has it starts its program, all of whose processes have
calmalloc, and which answers.

    recipes_test.py
    recipes_test.py --measure [RECIPE...]   what the page says of memory: with the C library's malloc, and with ours

Under a heading of the page the first block is the command. Its PORT and FOLDER are the test's.
"""
import http.client
import os
import pwd
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from support import ROOT, calm, needs, run, wait_for

PAGE = os.path.join(ROOT, "docs", "recipes.md")
PLACE = "/usr/local/lib/libcalmalloc.so"  # as the page has it
CLIENTS, ROUNDS = 8, 3
WSGI = """import json
def app(environ, start):
    data = {str(i): "x" * (i % 700) for i in range(20000)}
    body = json.dumps(data)[:1000].encode()
    start("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""
RACK = """run(lambda do |env|
  data = (0...20000).map { |i| "x" * (i % 700) }
  [200, {"content-type" => "text/plain"}, [data.join[0, 1000]]]
end)
"""
NODE = """const http = require('http'), zlib = require('zlib');
http.createServer((request, response) => {
    const parts = [];
    for (let i = 0; i < 200; i++) parts.push(zlib.gzipSync(Buffer.alloc(20000 + i * 10, i)));
    response.end(Buffer.concat(parts).subarray(0, 1000));
}).listen(process.env.PORT, '127.0.0.1');
"""
JAVA = """import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;
import java.util.zip.Deflater;
public class Main {
    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(
            new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT"))), 64);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> {
            byte[] in = new byte[300000], out = new byte[310000];
            for (int i = 0; i < 20; i++) {
                Deflater deflater = new Deflater();
                deflater.setInput(in);
                deflater.finish();
                deflater.deflate(out);
                deflater.end();
            }
            exchange.sendResponseHeaders(200, 1000);
            exchange.getResponseBody().write(out, 0, 1000);
            exchange.close();
        });
        server.start();
    }
}
"""
NGINX = """daemon off;
worker_processes 2;
pid FOLDER/nginx.pid;
error_log FOLDER/error.log;
events { worker_connections 512; }
http {
    access_log off;
    server { listen 127.0.0.1:PORT; root FOLDER; gzip on; gzip_types text/plain; default_type text/plain; }
}
"""


def get(port):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        client.request("GET", "/index.html", headers={"Accept-Encoding": "gzip"})
        answer = client.getresponse()
        answer.read()
        return answer.status == 200
    finally:
        client.close()


def is_up(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def http_load(port, requests=400):
    def ask():
        for _ in range(requests // CLIENTS):
            get(port)
    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def redis_load(port):
    """200,000 keys of mixed sizes, of which two in three then go."""
    def send(commands):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"".join(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word)
                                                                        for word in words) for words in commands))
            left, client_file = len(commands), client.makefile("rb")
            while left:
                client_file.readline()
                left -= 1
    for first in range(0, 200000, 2000):
        send([(b"SET", b"k%d" % i, b"x" * (20 + i * 37 % 900)) for i in range(first, first + 2000)])
    for first in range(0, 200000, 2000):
        send([(b"DEL", b"k%d" % i) for i in range(first, first + 2000) if i % 3])


def memcached_load(port):
    with socket.create_connection(("127.0.0.1", port)) as client:
        file = client.makefile("rb")
        for first in range(0, 60000, 500):
            client.sendall(b"".join(b"set k%d 0 0 %d\r\n%s\r\n" % (i, 20 + i * 37 % 900, b"x" * (20 + i * 37 % 900))
                                    for i in range(first, first + 500)))
            for _ in range(500):
                file.readline()


def pgbench(port):
    words = [os.path.join(postgres_folder(), "pgbench"), "-h", "127.0.0.1", "-p", str(port), "-U", "postgres"]
    wait_for(lambda: run(words[0].replace("pgbench", "pg_isready"), *words[1:5], check=False).returncode == 0)
    run(*words, "-i", "-q", "-s", "5", "postgres")
    run(*words, "-c", "8", "-j", "2", "-t", "500", "postgres")


def postgres_folder():
    folders = ["/usr/lib/postgresql/%s/bin" % name for name in sorted(os.listdir("/usr/lib/postgresql"), key=int)] if (
        os.path.isdir("/usr/lib/postgresql")) else []
    return folders[-1] if folders else ""


class Recipe:
    """A program: what it needs in its folder, and what it is asked."""

    def __init__(self, files, load, programs, prepare=None):
        self.files, self.load, self.programs, self.prepare = files, load, programs, prepare


def prepare_postgres(folder, port):
    user = postgres_user()
    data = os.path.join(folder, "data")
    os.mkdir(data)
    if user is not None:
        os.chown(data, *user)
        os.chown(folder, *user)
    run(os.path.join(postgres_folder(), "initdb"), "-D", data, "-U", "postgres", "-A", "trust", **as_user(user))
    with open(os.path.join(data, "postgresql.conf"), "a") as file:
        file.write("port = %d\nunix_socket_directories = ''\nlisten_addresses = '127.0.0.1'\n" % port)


def postgres_user():
    """(user, group) to be where we are root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return None
    found = pwd.getpwnam("postgres")
    return found.pw_uid, found.pw_gid


def as_user(user):
    return {} if user is None else {"user": user[0], "group": user[1], "extra_groups": []}


def compile_java(folder, port):
    run("javac", "-d", folder, os.path.join(folder, "Main.java"))


RECIPES = {
    "gunicorn": Recipe({"app.py": WSGI}, http_load, ["gunicorn"]),
    "Puma": Recipe({"app.ru": RACK}, http_load, ["puma"]),
    "Node": Recipe({"server.js": NODE}, http_load, ["node"]),
    "JVM": Recipe({"Main.java": JAVA}, http_load, ["java", "javac"], compile_java),
    "PostgreSQL": Recipe({}, pgbench, [], prepare_postgres),
    "nginx": Recipe({"nginx.conf": NGINX, "index.html": "some text to pack\n" * 20000}, http_load, ["nginx"]),
    "Redis": Recipe({}, redis_load, ["redis-server"]),
    "memcached": Recipe({}, memcached_load, ["memcached"]),
}


def command_of(name):
    """The first block under a heading of the page."""
    with open(PAGE) as file:
        found = re.search(r"^## %s\n.*?```sh\n(.*?)```" % re.escape(name), file.read(), re.M | re.S)
    return found.group(1).strip()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def processes_of(group):
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid) as file:
                words = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[3]) == group and words[0] != "Z":
            found.append(int(pid))
    return found


def read(pid, name):
    try:
        with open("/proc/%d/%s" % (pid, name)) as file:
            return file.read()
    except OSError:
        return ""


class Running:
    """A recipe's program in a session of its own."""

    def __init__(self, name, library):
        recipe = RECIPES[name]
        self.folder, self.port = tempfile.mkdtemp(prefix="calm-recipe-"), free_port()
        os.chmod(self.folder, 0o755)  # a server that we start as root serves as another user
        for file_name, text in recipe.files.items():
            with open(os.path.join(self.folder, file_name), "w") as file:
                file.write(self.filled(text))
        if recipe.prepare:
            recipe.prepare(self.folder, self.port)
        command = self.filled(command_of(name))
        if library:
            command = command.replace(PLACE, library)
        else:
            command = command.replace("LD_PRELOAD=%s " % PLACE, "").replace("PYTHONMALLOC=malloc ", "")
        env = dict(os.environ, PORT=str(self.port))
        if name == "PostgreSQL":
            env["PATH"] = postgres_folder() + ":" + env["PATH"]
        self.log = open(os.path.join(self.folder, "log"), "w")
        self.process = subprocess.Popen(["sh", "-c", "exec env " + command], cwd=self.folder, env=env,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        start_new_session=True,
                                        **(as_user(postgres_user()) if name == "PostgreSQL" else {}))

    def filled(self, text):
        return text.replace("PORT", str(self.port)).replace("FOLDER", self.folder) if "process.env" not in text and (
            "getenv" not in text) else text

    def said(self):
        with open(self.log.name, errors="replace") as file:
            return file.read()

    def is_up(self):
        return is_up(self.port)

    def rss(self):
        """Memory of all its processes, shared pages once: the sum of PSS."""
        return sum(int(re.search(r"(?m)^Pss: +(\d+)", read(pid, "smaps_rollup") or "Pss: 0").group(1))
                   for pid in processes_of(self.process.pid)) << 10

    def end(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in processes_of(self.process.pid):
                try:
                    os.kill(pid, number)
                except OSError:
                    pass
            if wait_for(lambda: self.process.poll() is not None and not processes_of(self.process.pid), 20):
                break
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Recipes(unittest.TestCase):
    # Seen to fail: a command of the page that does not set LD_PRELOAD.

    def try_recipe(self, name):
        recipe = RECIPES[name]
        needs.here(*recipe.programs)
        if name == "PostgreSQL" and not postgres_folder():
            needs.lacking("PostgreSQL is missing; apt-get install postgresql brings it.")
        library = calm("lib").stdout.strip()
        running = Running(name, library)
        try:
            self.assertTrue(wait_for(running.is_up), running.said())
            if recipe.load is http_load:
                self.assertTrue(get(running.port))
            else:
                time.sleep(1)
            found = processes_of(running.process.pid)
            self.assertTrue(found)
            for pid in found:
                self.assertIn("libcalmalloc", read(pid, "maps"), read(pid, "cmdline"))
            self.assertNotIn("calmalloc:", running.said())
        finally:
            running.end()


for _name in RECIPES:
    def _one(self, name=_name):
        self.try_recipe(name)
    setattr(Recipes, "test_" + _name.lower(), _one)


class Page(unittest.TestCase):
    def test_each_recipe_is_run_here_or_marked(self):
        # Seen to fail: a heading that is neither.
        with open(PAGE) as file:
            parts = re.split(r"(?m)^## ", file.read())[1:]
        for part in parts:
            title = part.split("\n")[0]
            self.assertTrue(title in RECIPES or title == "What they save" or "Not run by a test." in part, title)


def measure(names):
    library = calm("lib").stdout.strip()
    for name in names or RECIPES:
        seen = {"": [], library: []}
        for _ in range(ROUNDS):
            for preload, found in seen.items():
                running = Running(name, preload)
                try:
                    wait_for(running.is_up)
                    RECIPES[name].load(running.port)
                    time.sleep(2)
                    found.append(running.rss() / (1 << 20))
                finally:
                    running.end()
        before, after = (statistics.median(found) for found in seen.values())
        print("%-12s %6.1f MiB (%s)  %6.1f MiB (%s)  %.2f" % (
            name, before, " ".join("%.1f" % one for one in seen[""]), after,
            " ".join("%.1f" % one for one in seen[library]), after / before), flush=True)


if __name__ == "__main__":
    if "--measure" in sys.argv:
        measure(sys.argv[sys.argv.index("--measure") + 1:])
    else:
        needs.main()
