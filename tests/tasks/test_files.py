import os
import stat

from pathlib import Path

import pytest

from rl4co_prompt.tasks.files import check_output, read_text, write_bytes, write_text


def test_what_is_written_is_read_back(tmp_path):
    path = write_text(tmp_path / "a.txt", "zwölf\nZeilen \N{SNOWMAN}\n")

    assert path == tmp_path / "a.txt"
    assert read_text(path) == "zwölf\nZeilen \N{SNOWMAN}\n"


def test_bytes_are_written_as_they_are(tmp_path):
    data = bytes(range(256)) + b"\r\n\n"

    assert write_bytes(str(tmp_path / "a.bin"), data).read_bytes() == data


def test_parents_are_made(tmp_path):
    write_text(tmp_path / "deep" / "folder" / "a.txt", "text")

    assert (tmp_path / "deep" / "folder" / "a.txt").read_text() == "text"


def test_a_file_that_is_there_is_replaced(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a longer text than the new one")
    write_text(path, "new")

    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_others_may_read_what_is_written(tmp_path):
    """Temporary files are private; the written one is no secret."""
    path = write_text(tmp_path / "a.txt", "text")

    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize("fails", ["fdopen", "chmod", "replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_nothing_is_left_behind_on_failure(tmp_path, monkeypatch, fails, error):
    before = tmp_path / "before.txt"
    before.write_text("before")

    def fail(*given):
        if fails == "fdopen":
            os.close(given[0])
        raise error

    monkeypatch.setattr(os, fails, fail)
    for path in (before, tmp_path / "new.txt"):
        with pytest.raises(type(error)):
            write_text(path, "after")

    assert list(tmp_path.iterdir()) == [before]
    assert before.read_text() == "before"


def test_text_that_can_not_be_encoded_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="surrogates"):
        write_text(tmp_path / "a.txt", "\ud800")

    assert list(tmp_path.iterdir()) == []


def test_binary_text_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"some\0thing")

    with pytest.raises(ValueError, match=r"a\.txt is no text file\."):
        read_text(path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbftext")

    assert read_text(path) == "text"


def test_bytes_that_are_no_utf_8_are_marked_not_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("Düsseldorf".encode("latin-1"))

    assert read_text(path) == "D\N{REPLACEMENT CHARACTER}sseldorf"


@pytest.mark.parametrize("name", ["none.txt", ""], ids=["missing", "folder"])
def test_what_is_no_file_is_named(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=r"^No file at .*\.$"):
        read_text(tmp_path / name)


def test_an_output_must_have_a_place(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    check_output(tmp_path / "new" / "deep" / "a.csv")
    check_output(tmp_path / "file")
    check_output(tmp_path / "new", folder=True)
    monkeypatch.chdir(tmp_path)
    check_output(Path("a.csv"))

    with pytest.raises(ValueError, match="is a folder; name a file"):
        check_output(tmp_path)
    for path, folder in ((tmp_path / "file" / "a.csv", False), (tmp_path / "file", True)):
        with pytest.raises(ValueError, match=r"can't be written: .*file is no folder"):
            check_output(path, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_place_that_can_not_be_written_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)

    with pytest.raises(ValueError, match=r"a\.csv can't be written: .* does not allow it"):
        check_output(tmp_path / "a.csv")
