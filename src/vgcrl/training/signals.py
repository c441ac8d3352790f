"""Ctrl-C and SIGTERM as requests to stop: answered at once, kept soon, and never an exception inside a compiler.

Python runs handlers between two steps of the main thread, so not while it compiles or waits for an environment; and
what a handler raises may come up inside a callback of JAX, which drops it or crashes. So in a command (`watched`) a
thread hears of signals instead, and ends the process where the main thread does not. Files are written in one step,
so nothing that was saved is lost. Where training is called from Python, the process is not ours to end.
"""

import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE = 8.0  # seconds between a request and the end, but for a checkpoint that is being written
INTERRUPTED = 130  # exit code


class StopRequest:
    """Whether a run that is being trained has been asked to stop."""

    def __init__(self, how: str):
        self.how = how  # to go on
        self.saving = threading.Lock()  # held while a checkpoint is written
        self._asked = threading.Event()

    def __call__(self) -> bool:
        return self._asked.is_set()

    def ask(self) -> None:
        self._asked.set()
        _say("stopping after this step…")


_training: StopRequest | None = None
_again = ""  # how to go on, where that is not to resume the run that is being trained
_watched = False


def _say(text: str) -> None:
    """Past all buffers, which another thread may hold."""
    encoding = sys.stderr.encoding if sys.stderr else None  # none of what has been put in its place
    os.write(2, f"{text}\n".encode(encoding or "utf-8", "replace"))


def request_stop() -> None:
    """As Ctrl-C would: at the end of a step where a run is being trained, else at once."""
    if _training is None:
        raise KeyboardInterrupt
    _training.ask()


def _end(code: int, text: str) -> None:
    if sys.stderr and sys.stderr.isatty():
        os.write(2, b"\x1b[?25h")  # the bar hides the cursor
    _say(f"vgcrl: {text}")
    os._exit(code)


@contextmanager
def of_many(how: str) -> Generator[None]:
    """While several runs are made by one command: `how` it goes on after a stop."""
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
    """The first request of a run is kept within GRACE; any other ends the process."""
    training = _training
    if training is None:
        _end(128 + number, "interrupted")
    elif training():
        _end(INTERRUPTED, "interrupted")
    else:
        training.ask()
        timer = threading.Timer(GRACE, _give_up, [training])
        timer.daemon = True
        timer.start()


def _listen(pipe: int) -> None:
    while number := os.read(pipe, 1):
        if number[0] in SIGNALS:
            _hear(number[0])


@contextmanager
def watched() -> Generator[None]:
    """For a whole command, in the main thread. Afterwards signals end the process, as they do before."""
    global _watched
    heard, written = os.pipe()
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(heard,), daemon=True).start()
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as in the background
            signal.signal(number, lambda *_: None)
    _watched = True
    try:
        yield
    finally:
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        _watched = False


@contextmanager
def stop_requests(how: str = "") -> Generator[StopRequest]:
    """While a run is trained, signals ask for a stop at the end of a step; a second Ctrl-C is not held back."""
    global _training
    training = StopRequest(how)
    if threading.current_thread() is not threading.main_thread():
        yield training
        return

    def handle(number: int, _: Any) -> None:
        if training():
            raise KeyboardInterrupt
        training.ask()

    before = {} if _watched else {number: signal.signal(number, handle) for number in SIGNALS}
    _training = training
    try:
        yield training
    finally:
        _training = None
        for number, handler in before.items():
            signal.signal(number, handler)
