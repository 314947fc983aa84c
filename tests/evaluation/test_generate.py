import pytest

from rl4co_prompt import MultiTaskCVRPEnv
from rl4co_prompt.evaluation.generate import generate_sets, plot_samples, write_sets
from rl4co_prompt.evaluation.suites import load_suite
from rl4co_prompt.inference.inputs import read_instances


def test_a_suite_becomes_a_folder_of_sets(tmp_path):
    sets = generate_sets("zero-shot", 2, seed=1)
    files = write_sets(sets, tmp_path)

    assert len(files) == 12
    assert [i.digest for i in read_instances(files[3])] == [i.digest for i in sets[3].instances]


def test_both_forms_hold_the_same_instances(tmp_path):
    sets = generate_sets("9-cluster", 3, seed=4)
    (npz,) = write_sets(sets, tmp_path / "set.npz")
    write_sets(sets, tmp_path / "files", "vrp")
    digests = {instance.digest for instance in sets[0].instances}

    assert {i.digest for i in read_instances(npz)} == digests
    assert {i.digest for i in read_instances(tmp_path / "files")} == digests
    assert [i.digest for i in load_suite("9-cluster", 3, seed=4)[0].instances] == [
        i.digest for i in sets[0].instances
    ]


def test_the_environment_reads_what_is_written(tmp_path):
    sets = generate_sets("9-cluster", 3, seed=4)
    (npz,) = write_sets(sets, tmp_path / "set.npz")
    td = MultiTaskCVRPEnv.load_data(npz)

    assert td["demand"][0].tolist() == pytest.approx(
        (sets[0].instances[0].demand / sets[0].instances[0].capacity).tolist()
    )
    assert td["locs"][1].numpy() == pytest.approx(sets[0].instances[1].coordinates[1:], abs=1e-7)


def test_samples_are_drawn(tmp_path):
    sets = generate_sets("9-cluster", 3, seed=4)

    assert plot_samples(sets, tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert b"<svg" in plot_samples(sets, tmp_path / "a.svg").read_bytes()
    with pytest.raises(ValueError, match="must end in"):
        plot_samples(sets, tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda path: generate_sets("cvrplib", 2, 0), "can't be generated"),
        (lambda path: generate_sets("uniform", 0, 0), "count must be at least 1"),
        (lambda path: generate_sets("nothing", 1, 0), "Unknown task 'nothing'"),
        (lambda path: write_sets(generate_sets("uniform", 1, 0), path / "a.npz"), "name a folder"),
        (lambda path: write_sets([], path, "txt"), "Unknown format 'txt'"),
        (lambda path: write_sets([], path / "x.txt"), "x.txt is neither an .npz file nor a folder"),
    ],
)
def test_senseless_requests_are_refused(call, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        call(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("form", "out"), [("npz", "a.npz"), ("npz", "a"), ("vrp", "a")])
def test_files_are_not_overwritten_unless_forced(form, out, tmp_path):
    first, second = (generate_sets("9-cluster", 2, seed) for seed in (1, 2))
    files = write_sets(first, tmp_path / out, form)
    before = [file.read_bytes() for file in files]
    with pytest.raises(ValueError, match=r"is there already; name another place, or add --force\."):
        write_sets(second, tmp_path / out, form)

    assert [file.read_bytes() for file in files] == before
    assert write_sets(second, tmp_path / out, form, force=True) == files
    assert [file.read_bytes() for file in files] != before


def test_a_folder_that_is_there_may_have_any_name(tmp_path):
    (tmp_path / "v1.2").mkdir()

    assert write_sets(generate_sets("9-cluster", 1, 0), tmp_path / "v1.2")[0].is_file()
