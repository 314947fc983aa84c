import sys
import threading
import time

import pytest

from rl4co_prompt.evaluation.programs import Programs, run_program


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


def test_a_program_out_of_time_ends_with_all_it_started():
    begin = time.perf_counter()
    # The inner process holds the pipes open; ending only the shell would wait for it.
    outcome = run_program(["sh", "-c", "echo begun; sleep 60; echo never"], 0.3)

    assert outcome.code is None
    assert outcome.out == "begun\n"
    assert time.perf_counter() - begin < 10


def test_stopping_ends_what_runs_and_lets_nothing_start():
    programs, codes = Programs(), []

    def work():
        programs.adopt()
        codes.append(run_program(["sh", "-c", "sleep 60"], 60).code)
        with pytest.raises(RuntimeError, match="has been stopped"):
            run_program(["sh", "-c", "true"], 60)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.2)
    programs.stop()
    thread.join(10)

    assert not thread.is_alive()
    assert codes
    assert codes[0] != 0
