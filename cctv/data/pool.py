"""Decoding in worker processes with a time limit for each file, so that no file can hang a run."""

import itertools
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pebble import ProcessExpired, ProcessPool

from cctv.data.video import VideoDecodeError


class DecodePool:
    """A context manager around worker processes that decode (and preprocess) videos.

    Workers are spawned, not forked (decoders deadlock after a fork), so they import the main module
    anew: a command should import what is heavy inside its main function. They ignore Ctrl-C, which
    the parent handles, and end when the parent is gone. Leaving the context by an error or Ctrl-C
    stops them at once.
    """

    def __init__(self, workers: int = 2, *, timeout: float = 60.0):
        if workers < 1 or not timeout > 0:
            raise ValueError(f"workers {workers} and timeout {timeout} must be positive")
        self.workers, self.timeout = workers, timeout

    def __enter__(self):
        self._pool = ProcessPool(
            max_workers=self.workers,
            context=multiprocessing.get_context("spawn"),
            initializer=_prepare_worker,
        )
        with _interrupts_ignored():  # inherited, so that a worker can't be interrupted as it starts
            self._pool.schedule(os.getpid)
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self._pool.close()
        else:
            self._pool.stop()
        self._pool.join()

    def imap(
        self, function: Callable[..., Any], items: Iterable[tuple]
    ) -> Iterator[tuple[tuple, Any]]:
        """Yields (item, function(*item)) in order; `item[0]` is the path of the video.

        `function` is a top-level function. A file that it can't read, on which it gives no answer
        in time, runs out of memory or kills its worker has a VideoDecodeError (VideoMissingError
        where there is no file) as its result, and the others go on; other exceptions are raised.
        At most 2 x workers items are being worked on or wait to be taken.
        """
        items = iter(items)
        pending: deque[tuple] = deque()
        try:
            while True:
                for item in itertools.islice(items, 2 * self.workers - len(pending)):
                    future = self._pool.schedule(_call, args=(function, item), timeout=self.timeout)
                    pending.append((item, future))
                if not pending:
                    return
                item, future = pending.popleft()
                yield item, self._result(item[0], future)
        finally:
            for _, future in pending:
                future.cancel()

    def _result(self, path, future) -> Any:
        try:
            return future.result()
        except VideoDecodeError as error:
            return error
        except TimeoutError:
            reason = f"no answer within {self.timeout:g} s; convert it to mp4 or raise the limit"
        except ProcessExpired as error:
            reason = f"the reader crashed (exit code {error.exitcode}); convert it to mp4"
        except MemoryError:
            reason = "out of memory; sample fewer or smaller frames"
        return VideoDecodeError(path, reason)


def _call(function: Callable, item: tuple) -> Any:
    return function(*item)


def _prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change it
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
