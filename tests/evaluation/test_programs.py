import sys
import time

from concurrent.futures import ThreadPoolExecutor

import pytest

from rl4co_prompt.evaluation.programs import Programs, run_program
from tests.waiting import until


def python(code):
    return [sys.executable, "-I", "-c", code]


def test_a_program_gets_its_input_and_gives_its_output():
    outcome = run_program(python("print(input().upper())"), 30, b"a word\n")

    assert (outcome.code, outcome.out, outcome.err) == (0, "A WORD\n", "")


def test_without_input_a_program_finds_stdin_empty(tmp_path):
    code = "import os, sys; print(repr(sys.stdin.read()), os.getcwd())"
    outcome = run_program(python(code), 30, folder=tmp_path)

    assert outcome.out.split() == ["''", str(tmp_path.resolve())]


def test_the_last_line_prefers_errors():
    outcome = run_program(python("print('out'); raise SystemExit('what is wrong.\\n')"), 30)

    assert outcome.code == 1
    assert outcome.last_line == "what is wrong"
    assert run_program(python("print('out')"), 30).last_line == "out"
    assert run_program(python("pass"), 30).last_line == "it said nothing"


def test_a_program_out_of_time_ends_with_all_it_started(limit_begins_with, tmp_path):
    limit_begins_with(tmp_path / "begun")
    begin = time.perf_counter()
    # The inner process holds the pipes open; ending only the shell would wait for it.
    code = "echo begun; touch begun; sleep 120; echo never"
    outcome = run_program(["sh", "-c", code], 0.05, folder=tmp_path)

    assert outcome.code is None
    assert outcome.out == "begun\n"
    assert time.perf_counter() - begin < 60


def test_stopping_ends_what_runs(tmp_path):
    programs = Programs()
    with ThreadPoolExecutor(1, initializer=programs.adopt) as pool:
        command = ["sh", "-c", "touch begun; sleep 120"]
        running = pool.submit(run_program, command, 120, folder=tmp_path)
        until((tmp_path / "begun").exists)
        begin = time.perf_counter()
        programs.stop()
        outcome = running.result()

    assert outcome.code not in (0, None)  # neither at its end nor out of time
    assert time.perf_counter() - begin < 60


def test_after_stopping_nothing_starts(tmp_path):
    programs = Programs()
    programs.stop()
    with ThreadPoolExecutor(1, initializer=programs.adopt) as pool:
        started = pool.submit(run_program, ["touch", "begun"], 60, folder=tmp_path)

    with pytest.raises(RuntimeError, match=r"^touch was not started: the run has been stopped\.$"):
        started.result()
    assert not (tmp_path / "begun").exists()
