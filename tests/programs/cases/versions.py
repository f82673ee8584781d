"""git: 500 commits, threads that pack, many short processes. Dates are fixed, so that equal work has equal hashes."""

from cases import case
from harness import find_program

ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_PAGER": "cat",
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "A Name"), ("EMAIL", "name@example.org"), ("DATE", "2020-01-01T00:00:00Z"))
    },
}
IMPORTED, COMMITTED = 460, 40


def file_text(name, version):
    lines = []
    for i in range(120 + version % 50):
        lines.append(f"line {i} of {name}, written at {version if i % 13 == version % 13 else version // 100}")
    return "\n".join(lines) + "\n"


def history():
    """A stream for `git fast-import`: each commit changes a few of forty files; some add what does not compress."""
    out, state = [], 1
    for commit in range(IMPORTED):
        out.append(f"commit refs/heads/main\ncommitter A Name <name@example.org> {1500000000 + commit * 60} +0000\n")
        out.append(f"data {len(f'change {commit}')}\nchange {commit}\n")
        if commit == 0:
            out.append("deleteall\n")
        for turn in range(4):
            name = f"dir{(commit + turn) % 7}/file{(commit * 3 + turn) % 40}.txt"
            text = file_text(name, commit)
            if commit % 5 == 0:
                for _ in range(60):
                    state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
                    text += f"{state:016x}\n"
            out.append(f"M 100644 inline {name}\ndata {len(text)}\n{text}\n")
    return "".join(out)


@case("git", "programs", ("git",), 150)
def git(world):
    program = find_program("git")

    def run(*words, **how):
        return world.run(program, *words, label=f"git {words[0]}", env=ENVIRONMENT, **{"cwd": repository, **how})

    repository = world.work / "repository"
    run("init", "-q", "-b", "main", repository, cwd=world.work)
    for key, value in (("gc.auto", "0"), ("pack.threads", "4"), ("index.threads", "4"), ("core.preloadIndex", "true")):
        run("config", key, value)
    run("fast-import", "--quiet", stdin=history())
    run("reset", "-q", "--hard")
    for number in range(COMMITTED):
        path = repository / f"dir{number % 7}" / "new.txt"
        path.write_text(file_text("new", number))
        run("add", "-A")
        run("commit", "-q", "-m", f"new {number}")
    run("checkout", "-q", "-b", "side", "HEAD~50")
    (repository / "side.txt").write_text(file_text("side", 1))
    run("add", "side.txt")
    run("commit", "-q", "-m", "side")
    run("rebase", "-q", "main")
    run("checkout", "-q", "main")
    run("merge", "-q", "--no-ff", "-m", "merged", "side")
    run("gc", "-q", "--aggressive", "--prune=now")
    run("fsck", "--full", "--strict")
    run("repack", "-a", "-d", "-f", "-q", "--window=20")
    run("verify-pack", "-v", *(repository / ".git/objects/pack").glob("*.idx"), compare=False)
    run("log", "--oneline", "--stat", "-M", "-n", "120")
    run("rev-list", "--objects", "--all")
    run("blame", "dir3/new.txt")
    run("diff", "HEAD~300", "HEAD", "--word-diff=porcelain")
    run("grep", "-n", "-E", "line (77|88) .*4[0-9]+$")
    run("shortlog", "-s", "HEAD")
    run("archive", "--format=tar", "HEAD")
    run("clone", "-q", "--no-local", repository, world.work / "clone", cwd=world.work)
    run("status", "--short", "--branch", cwd=world.work / "clone")
    run("fsck", "--full", cwd=world.work / "clone")
