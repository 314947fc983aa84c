"""Waiting for what another thread or program will do, however slow the machine."""

import time


def until(condition, seconds=60):
    """Return as soon as the condition holds; an error if it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.01)
