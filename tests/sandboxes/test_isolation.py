import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from sandboxes import isolation
from sandboxes.api import Grade, Isolation, Request
from sandboxes.isolation import VARIANTS, command, main, probe, wrap

FOUND = probe()
needs_namespaces = pytest.mark.skipif(FOUND.grade is not Grade.A, reason=FOUND.reason)


@pytest.fixture
def study(tmp_path):
    for name in ("vault", "job/inner", "other"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text(f"in {name}")
    return tmp_path


@pytest.fixture
def forget():
    isolation._best.cache_clear()
    probe.cache_clear()
    yield
    isolation._best.cache_clear()
    probe.cache_clear()


def run(study, code, *, hide=("vault",), writable=("job",), network=False):
    argv = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import os, socket, subprocess\nos.chdir({str(study)!r})\n{code}",
    ]
    wrapped, _ = wrap(
        argv,
        hide=[str(study / name) for name in hide],
        writable=[str(study / name) for name in writable],
        network=network,
    )
    done = subprocess.run(wrapped, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@needs_namespaces
def test_hidden_folders_are_empty_and_hidden_files_cannot_be_read(study):
    (study / "secret").write_text("in secret")
    assert run(study, "print(os.listdir('vault'), open('other/file').read())") == "[] in other"
    assert "Permission denied" in run(study, "open('secret')", hide=("secret",))


@needs_namespaces
@pytest.mark.parametrize("place", ["other/new", "vault/new", "new"])
def test_what_was_not_named_is_read_only(study, place):
    assert run(study, f"open({place!r}, 'w')") == f"OSError: [Errno 30] Read-only file system: {place!r}"
    assert not (study / place).exists()


@needs_namespaces
def test_writable_folders_are_written_through(study):
    assert run(study, "print(open('job/inner/new', 'w').write('abc'))") == "3"
    assert (study / "job" / "inner" / "new").read_text() == "abc"


@needs_namespaces
def test_of_nested_paths_the_inner_one_counts_and_of_equal_ones_hide(study):
    look = "print(os.listdir('job'), os.access('job/inner', os.W_OK))"
    assert run(study, look, hide=("job",), writable=("job/inner",)) == "['inner'] True"
    assert run(study, "print(os.listdir('job/inner'))", hide=("job/inner",), writable=("job",)) == "[]"
    assert run(study, "print(os.listdir('job'))", hide=("job",), writable=("job",)) == "[]"


@needs_namespaces
def test_a_link_to_a_hidden_folder_leads_to_nothing(study):
    (study / "link").symlink_to(study / "vault")
    assert run(study, "print(os.listdir('vault'), os.listdir('link'))", hide=("link",)) == "[] []"


@needs_namespaces
def test_there_is_no_network_unless_asked_for(study):
    look = "print(*(name for _, name in socket.if_nameindex()))"
    assert run(study, look) == "lo"
    assert run(study, look, network=True).split() == [name for _, name in socket.if_nameindex()]


@needs_namespaces
@pytest.mark.parametrize(
    "attempt",
    [
        "subprocess.run(['umount', 'vault'], capture_output=True)",
        "subprocess.run(['unshare', '-Urm', 'umount', os.path.abspath('vault')], capture_output=True)",
        "os.chroot('/')",
        "os.mknod('job/disk', 0o60600, os.makedev(254, 0))",
    ],
)
def test_the_vault_stays_hidden_whatever_is_tried(study, attempt):
    look = "print(*map(os.path.exists, ('vault/file', 'job/disk')))"
    assert run(study, f"try:\n    {attempt}\nexcept OSError: pass\n{look}") == "False False"


@needs_namespaces
def test_no_disk_can_be_read_past_its_files(study):
    is_disk = "stat.S_ISBLK(os.lstat(f'/dev/{name}').st_mode)"
    assert run(study, f"import stat\nprint([name for name in os.listdir('/dev') if {is_disk}])") == "[]"
    assert run(study, "print(open('/dev/null').read() == '', len(os.urandom(4)))") == "True 4"


@needs_namespaces
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.lacks or "best")
def test_no_process_table_leads_around_hide(study, variant):
    # A process outside, with the vault as its working directory, and a descriptor on it.
    outside = subprocess.Popen([sys.executable, "-c", "import time\ntime.sleep(60)"], cwd=study / "vault")
    code = (
        "import os\nfound = []\n"
        "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    for way in ('cwd/file', f'root{os.getcwd()}/vault/file'):\n"
        "        try: found.append(open(f'/proc/{pid}/{way}').read())\n"
        "        except OSError: pass\nprint(found)"
    )
    request = Request((sys.executable, "-I", "-S", "-c", code), hide=(str(study / "vault"),))
    try:
        done = subprocess.run(
            command(request, variant), cwd=study, capture_output=True, text=True, timeout=30, check=False
        )
    finally:
        outside.kill()
        outside.wait()
    assert done.stdout.strip() == "[]", done.stderr


@needs_namespaces
def test_the_command_lives_on_where_its_parent_dies(study):
    code = "import time\nopen('job/started', 'w').close()\ntime.sleep(0.5)\nopen('job/ended', 'w').close()"
    argv, _ = wrap(
        [sys.executable, "-c", f"import os\nos.chdir({str(study)!r})\n{code}"], writable=[str(study / "job")]
    )
    starts = f"import subprocess, time\nsubprocess.Popen({argv!r})\ntime.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", starts])
    deadline = time.monotonic() + 20
    while not (study / "job" / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while not (study / "job" / "ended").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (study / "job" / "ended").exists()


@needs_namespaces
def test_names_with_quotes_and_line_breaks_are_paths_like_others(tmp_path):
    folder = tmp_path / "a'; echo foo\n$x"
    (folder / "vault").mkdir(parents=True)
    (folder / "vault" / "file").touch()
    assert run(folder, "print(os.listdir('vault'))", writable=()) == "[]"


def test_without_bubblewrap_the_command_is_as_it_was_and_the_reason_is_told(forget, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert wrap(["true", "-x"], hide=["/etc"]) == (
        ["true", "-x"],
        Isolation(Grade.C, "bubblewrap (bwrap) is not installed"),
    )


def test_a_bubblewrap_that_does_not_work_gives_its_complaint(forget, monkeypatch, tmp_path):
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'No permissions to create a new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    assert probe().grade is Grade.C
    assert probe().reason.endswith("does not work here: No permissions to create a new namespace")


def test_the_next_best_is_taken_where_the_best_does_not_work(forget, monkeypatch, tmp_path):
    program = tmp_path / "bwrap"
    program.write_text('#!/bin/sh\ncase "$*" in *--unshare-pid*) exit 1;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    assert probe() == Isolation(Grade.A, "the process table is shared")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"argv": []}, "argv is empty"),
        ({"argv": "ls"}, "argv is 'ls'"),
        ({"argv": ["ls"], "hide": ["vault"]}, "hide has the relative path 'vault'"),
        ({"argv": ["ls"], "network": 1}, "network is 1"),
        ({"argv": ["ls"], "hidden": []}, "unknown key 'hidden'"),
    ],
)
def test_a_wrong_request_is_told_in_one_line(value, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(value)))
    assert main(["wrap"]) == 2
    assert capsys.readouterr().err.startswith(f"the request is wrong: {message}")


def test_the_program_answers_in_json(monkeypatch, capsys):
    assert main(["probe"]) == 0
    assert json.loads(capsys.readouterr().out) == {"grade": str(FOUND.grade), "reason": FOUND.reason}
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"argv": ["true"], "hide": []}'))
    assert main(["wrap"]) == 0
    assert json.loads(capsys.readouterr().out)["argv"][-1] == "true"
    assert main([]) == 2


def test_the_tree_runs_from_any_place(tmp_path):
    shutil.copytree(os.path.dirname(isolation.__file__), tmp_path / "sandboxes")
    argv = [sys.executable, "-S", "-m", "sandboxes.isolation", "probe"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["grade"] == str(FOUND.grade)
