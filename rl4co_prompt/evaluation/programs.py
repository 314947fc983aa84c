"""Run a program so that it, and all that it started, can be ended at once."""

import os
import signal
import subprocess
import threading

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_here = threading.local()


@dataclass(frozen=True)
class Outcome:
    """How a program ended.

    Args:
        code: its exit code; None if it had to be ended.
        out: what it wrote to stdout.
        err: what it wrote to stderr.
    """

    code: int | None
    out: str
    err: str

    @property
    def last_line(self) -> str:
        """The last thing it said, errors first."""
        lines = [line.strip() for text in (self.out, self.err) for line in text.splitlines()]
        said = [line for line in lines if line]
        return said[-1][:200].rstrip(".") if said else "it said nothing"


class Programs:
    """The programs that some threads run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def adopt(self) -> None:
        """Take charge of what the calling thread will run."""
        _here.programs = self

    def stop(self) -> None:
        """End all, and let none start."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                _end(process)

    def run(
        self, command: Sequence[str], timeout: float, data: bytes | None, folder: Path | None
    ) -> Outcome:
        process = self._start(command, data is not None, folder)
        try:
            out, err = process.communicate(data, timeout)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            _end(process)
            out, err = process.communicate()
            code = None
        except BaseException:
            _end(process)
            process.wait()
            raise
        finally:
            with self._lock:
                self._running.discard(process)
        return Outcome(code, out.decode(errors="replace"), err.decode(errors="replace"))

    def _start(
        self, command: Sequence[str], talks: bool, folder: Path | None
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise RuntimeError(f"{command[0]} was not started: the run has been stopped.")
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                # A group of its own: a wrapper script ends with the program it wraps, and Ctrl-C
                # reaches only us, who then end it.
                start_new_session=True,
            )
            self._running.add(process)
        return process


def run_program(
    command: Sequence[str], timeout: float, data: bytes | None = None, folder: Path | None = None
) -> Outcome:
    """Run a program to its end or for ``timeout`` seconds, on behalf of the calling thread."""
    programs: Programs = getattr(_here, "programs", None) or Programs()
    return programs.run(command, timeout, data, folder)


def _end(process: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # macOS says so of a group that has just ended
        return
    except AttributeError:  # no groups on Windows
        process.kill()
