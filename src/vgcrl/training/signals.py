"""Ctrl-C, SIGTERM and SIGHUP as requests to stop: answered at once, carried out soon, never an exception in a compiler.

Python runs signal handlers between two steps of the main thread, so not while it compiles or waits for an environment;
and what a handler raises may come up inside a callback of JAX, which drops it or crashes. So in a command (`watched`) a
thread receives the signals, and ends the process if the main thread does not. Files are written in one step, so nothing
that was saved is lost. Where training is called from Python, this module does not end the process.
"""

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the last one when a terminal is closed
ECHO = 1.0  # seconds in which a second request is the first once more: `timeout` signals its child, and then its group
GRACE = 8.0  # seconds from a request to the end of the process, unless a checkpoint is being written
INTERRUPTED = 130  # exit code


class StopRequest:
    """Whether a run in training has been asked to stop."""

    def __init__(self, how: str):
        self.how = how  # command that goes on with the run
        self.saving = threading.Lock()  # held while a checkpoint is written
        self._since = math.inf  # when it was asked first

    def __call__(self) -> bool:
        return self._since < math.inf

    def ask(self) -> None:
        if not self():
            self._since = time.monotonic()
            _say("stopping after this step…")

    def insisted(self) -> bool:
        """Returns whether a request that comes now is another one, which is not to wait for the end of a step."""
        return time.monotonic() - self._since > ECHO


_training: StopRequest | None = None
_again = ""  # how to go on, if not by resuming the run that is being trained
_watched = False


def _say(text: str) -> None:
    """Write a line to stderr, past all buffers, which another thread may hold; nobody may be there to read it."""
    encoding = sys.stderr.encoding if sys.stderr else None  # None for some replacements of stderr
    with suppress(OSError):
        os.write(2, f"{text}\n".encode(encoding or "utf-8", "replace"))


def request_stop() -> None:
    """Ask for a stop as Ctrl-C does: at the end of a step if a run is being trained, else by KeyboardInterrupt."""
    if _training is None:
        raise KeyboardInterrupt
    _training.ask()


def _end(code: int, text: str) -> None:
    if sys.stderr and sys.stderr.isatty():
        with suppress(OSError):
            os.write(2, b"\x1b[?25h")  # the bar hides the cursor
    _say(f"vgcrl: {text}")
    os._exit(code)


@contextmanager
def of_many(how: str) -> Generator[None]:
    """While a command makes several runs: `how` is what to tell a user about going on after a stop."""
    global _again
    before, _again = _again, how
    try:
        yield
    finally:
        _again = before


def _give_up(training: StopRequest) -> None:
    with training.saving:
        if _training is training:
            how = _again or f"continue with: {training.how}"
            _end(INTERRUPTED, f"stopped in the middle of a step; what was saved remains; {how}")


def _hear(number: int) -> None:
    """Answer a signal: the first request to a run is carried out within GRACE seconds; another ends the process."""
    training = _training
    if training is None:
        _end(128 + number, "interrupted")
    elif training.insisted():
        _end(INTERRUPTED, "interrupted")
    elif not training():
        training.ask()
        timer = threading.Timer(GRACE, _give_up, [training])
        timer.daemon = True
        timer.start()


def _listen(pipe: int) -> None:
    while number := os.read(pipe, 1):
        if number[0] in SIGNALS:
            _hear(number[0])


def _heeded() -> list[signal.Signals]:
    """Returns the signals that are not ignored: what is ignored stays so, as in the background, or after `nohup`."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def watched() -> Generator[None]:
    """Receive signals in a thread during a command, in the main thread. Afterwards they end the process, as before."""
    global _watched
    heard, written = os.pipe()
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(heard,), daemon=True).start()
    for number in _heeded():
        signal.signal(number, lambda *_: None)
    _watched = True
    try:
        yield
    finally:
        for number in _heeded():
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        _watched = False


@contextmanager
def stop_requests(how: str = "") -> Generator[StopRequest]:
    """During training, turn signals into requests to stop at the end of a step; a second Ctrl-C interrupts at once."""
    global _training
    training = StopRequest(how)
    if threading.current_thread() is not threading.main_thread():
        yield training
        return

    def handle(number: int, _: Any) -> None:
        if training.insisted():
            raise KeyboardInterrupt
        training.ask()

    heard = () if _watched else _heeded()
    before = {number: signal.signal(number, handle) for number in heard}
    _training = training
    try:
        yield training
    finally:
        _training = None
        for number, handler in before.items():
            signal.signal(number, handler)
