"""Ctrl-C, SIGTERM and SIGHUP in processes of their own, whose main thread may be anywhere; each says when there."""

import io
import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext, suppress

import pytest

from tiny import flags
from vgcrl.cli import main
from vgcrl.training import checkpoint, signals
from vgcrl.training.display import Display
from vgcrl.training.logs import read_lines

# The main thread inside a library for ever, as in a compiler: no handler of Python's runs there.
STUCK = """
import ctypes
lock, library = ctypes.create_string_buffer(64), ctypes.CDLL(None)
library.pthread_mutex_lock(lock)
print("ready", flush=True)
library.pthread_mutex_lock(lock)
"""
START = """
import sys
from pathlib import Path
from vgcrl.training import signals
"""
# What a shell does for a command: the terminal is the one that controls its session.
ON_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from vgcrl.__main__ import main
sys.exit(main())
"""


def indented(code, levels):
    return "".join(" " * 4 * levels + line for line in code.strip().splitlines(keepends=True)) + "\n"


def in_training(code, grace=1000.0, echo=1000.0):
    head = f"{START}signals.GRACE, signals.ECHO = {grace}, {echo}\nwith signals.watched():\n"
    return head + "    with signals.stop_requests('vgcrl resume runs/x') as stopping:\n" + indented(code, 2)


def started(code):
    """A process that has said that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    return process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_before_training_there_is_nothing_to_lose(number, code):
    process = started(f"{START}with signals.watched():\n{indented(STUCK, 1)}")
    process.send_signal(number)
    assert process.communicate() == ("", "vgcrl: interrupted\n")
    assert process.returncode == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_in_training_a_request_is_answered_and_kept(number):
    loop = "print('ready', flush=True)\nwhile not stopping():\n    pass\nprint('saved')"
    process = started(in_training(loop))
    process.send_signal(number)
    assert process.communicate() == ("saved\n", "stopping after this step…\n")
    assert process.returncode == 0


def test_a_step_that_does_not_end_is_ended():
    process = started(in_training(STUCK, grace=0.05))
    process.send_signal(signal.SIGINT)
    first, second = process.communicate()[1].splitlines()
    assert first == "stopping after this step…"
    assert second.endswith("what was saved remains; continue with: vgcrl resume runs/x")
    assert process.returncode == 130


def test_a_second_request_ends_at_once():
    process = started(in_training(STUCK, echo=0.0))
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == "stopping after this step…\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate()[1] == "vgcrl: interrupted\n"
    assert process.returncode == 130


def test_a_request_that_comes_twice_at_once_is_one(monkeypatch):
    """`timeout` signals its child, and then the group that this is in."""
    ended = []
    monkeypatch.setattr(signals, "_end", lambda *what: ended.append(what))
    with signals.stop_requests() as stopping:
        for _ in range(2):
            signals._hear(signal.SIGTERM)
        assert stopping()
        assert not ended
        monkeypatch.setattr(signals, "ECHO", 0.0)
        signals._hear(signal.SIGTERM)
    assert ended == [(130, "interrupted")]


def test_a_checkpoint_that_is_being_written_is_finished_first(monkeypatch, tmp_path):
    ended = []
    monkeypatch.setattr(signals, "_end", lambda *what: ended.append(what))
    with signals.stop_requests() as stopping:
        with stopping.saving:
            thread = threading.Thread(target=signals._give_up, args=[stopping])
            thread.start()
            thread.join(0.05)
            assert thread.is_alive()
            assert not ended
        thread.join()
        assert [code for code, _ in ended] == [130]
    signals._give_up(stopping)
    assert len(ended) == 1, "it has ended by itself"


@pytest.mark.parametrize(("many", "how"), [(False, "vgcrl resume"), (True, "the same command continues")])
def test_how_to_go_on_is_told_of_what_was_asked_for(many, how, monkeypatch, tmp_path):
    """Of several runs by one command that command, not the resume of one."""
    ended = []
    monkeypatch.setattr(signals, "_end", lambda *what: ended.append(what))
    with (
        signals.of_many("the same command continues") if many else nullcontext(),
        signals.stop_requests("vgcrl resume runs/x") as x,
    ):
        signals._give_up(x)
    ((code, said),) = ended
    assert code == 130
    assert how in said
    assert ("resume" in said) != many


def test_called_from_python_a_second_ctrl_c_is_an_exception(monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    with signals.stop_requests() as stopping:
        signal.raise_signal(signal.SIGINT)
        assert stopping()
        signal.raise_signal(signal.SIGINT)  # the same once more
        monkeypatch.setattr(signals, "ECHO", 0.0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("stream", [io.StringIO(), None], ids=["text", "nothing"])
def test_a_request_is_answered_whatever_stderr_is(stream, monkeypatch, tmp_path, capfd):
    monkeypatch.setattr(sys, "stderr", stream)
    with signals.stop_requests() as stopping:
        signal.raise_signal(signal.SIGINT)
        assert stopping()
    assert capfd.readouterr().err == "stopping after this step…\n"


def test_time_that_is_spent_is_as_ctrl_c(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        signals.request_stop()
    with signals.stop_requests() as stopping:
        signals.request_stop()
        assert stopping()


@pytest.mark.parametrize("where", ["watched", "stop_requests"], ids=["command", "Python"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["background", "nohup"])
def test_what_is_ignored_stays_so(number, where):
    code = f"import signal; signal.signal({number:d}, signal.SIG_IGN)\n{START}"
    code += f"with signals.{where}():\n    print('ready', flush=True)\n    sys.stdin.read()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.communicate("")[1] == ""
    assert process.returncode == 0


def test_a_run_is_saved_when_its_terminal_is_closed(tmp_path):
    """Whatever it writes there is an error from then on."""
    ours, theirs = os.openpty()
    long = flags(steps=10**8, evaluate_every=10**6, checkpoint_every=10**6)
    process = subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL, "train", "--out", tmp_path / "run", *long],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    while not checkpoint.saved(tmp_path / "run"):  # then it is in the loop
        assert process.poll() is None
        if select.select([ours], [], [], 0.1)[0]:
            os.read(ours, 1 << 16)
    os.close(ours)
    assert process.wait() == 130
    assert int(checkpoint.saved(tmp_path / "run")[0].name) > 0


def unread():
    """A stream whose reader has gone."""
    read, write = os.pipe()
    os.close(read)
    return io.TextIOWrapper(os.fdopen(write, "wb", buffering=0), encoding="utf-8", write_through=True)


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize(("streams", "code"), [(["stderr"], 0), (["stdout", "stderr"], 141)])
def test_a_run_is_whole_where_its_reader_has_gone(streams, code, monkeypatch, tmp_path):
    """As after `| head -3`: it is trained to its end, and its report written."""
    for name in streams:
        monkeypatch.setattr(sys, name, unread())
    assert main(["train", "--out", str(tmp_path / "run"), *flags()]) == code
    assert int(checkpoint.saved(tmp_path / "run")[0].name) == 640
    assert [line["step"] for line in read_lines(tmp_path / "run" / "metrics.jsonl")] == [0, 160, 320, 480, 640]
    assert (tmp_path / "run" / "report.html").exists()
    assert (tmp_path / "run" / "explore.html").exists()


def test_training_goes_on_where_nobody_can_be_told(monkeypatch):
    """Ctrl-C also ends `tee`, and the run is to be saved."""
    broken = unread()
    monkeypatch.setattr(sys, "stderr", broken)
    with Display("title", 100) as display:
        display.evaluated(10, {"F": 0.0, "lgr_z": 0.0})
        display.note("text")
    with suppress(BrokenPipeError):
        broken.close()
