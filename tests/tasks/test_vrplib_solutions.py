"""Reading .sol files, alone and beside their instance."""

import pytest

from rl4co_prompt.tasks.vrplib import read_sol, read_vrp
from tests.tasks.toy import TEXT, text


@pytest.fixture
def toy(tmp_path):
    path = tmp_path / "toy.vrp"
    path.write_text(text(("four points", "Optimal value: 40")))
    return path


def test_the_solution_beside_gives_the_reference(toy):
    toy.with_suffix(".sol").write_text("Route #1: 1 2\nRoute #2: 3\nCost 30\n")
    instance = read_vrp(toy)

    assert instance.reference == 30
    assert instance.source == "toy.sol"
    assert instance.reference_routes == [[1, 2], [3]]


def test_routes_beside_that_lack_the_stated_cost_warn_and_are_not_kept(toy):
    toy.with_suffix(".sol").write_text("Route #1: 1 2\nRoute #2: 3\nCost 29\n")
    with pytest.warns(UserWarning, match=r"toy\.sol do not have the cost it states; the stated"):
        instance = read_vrp(toy)

    assert instance.reference == 29
    assert instance.source == "toy.sol"
    assert instance.reference_routes is None


@pytest.mark.parametrize(
    "content",
    [
        "Route #1: 1 2\nCost 20\n",
        "Route #1: 1 2 3\nCost 30\n",
        "Route #1: 1 2\nRoute #2: 9\nCost 30\n",
    ],
    ids=["a customer missing", "an overload", "an unknown customer"],
)
def test_a_solution_of_another_instance_gives_no_reference(toy, content):
    toy.with_suffix(".sol").write_text(content)
    with pytest.warns(UserWarning, match=r"is not used: .*toy\.sol is of another instance: "):
        instance = read_vrp(toy)

    assert instance.reference == 40
    assert instance.source == "the file's comment"
    assert instance.reference_routes is None


@pytest.mark.filterwarnings("error")
def test_a_solution_beside_may_state_its_cost_alone(toy):
    toy.with_suffix(".sol").write_text("Cost 30\n")
    instance = read_vrp(toy)

    assert instance.reference == 30
    assert instance.reference_routes is None


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"Route #1: 1 2\n",
        b"Route #1: 1 2\nCost many\n",
        b"Route #1: 1 2\nCost nan\n",
        b"Route #1: 1 2\nCost inf\n",
        b"Route #1: 1 2\nCost 0\n",
        b"Route #1: 1 2\nCost -5\n",
        b"Route #1: 1 2\nCost 1e999\n",
        b"Route #1: one two\nCost 30\n",
        b"Route #1: 1_0\nCost 30\n",
        b"\x00\x01",
    ],
)
def test_a_broken_solution_beside_is_a_warning_and_gives_no_reference(toy, broken):
    toy.write_text(TEXT)
    toy.with_suffix(".sol").write_bytes(broken)
    with pytest.warns(UserWarning, match=r"toy\.sol"):
        instance = read_vrp(toy)

    assert instance.reference is None
    assert instance.source == ""


def test_a_broken_solution_beside_leaves_the_comments_reference(toy):
    toy.with_suffix(".sol").write_text("nothing")
    with pytest.warns(UserWarning, match=r"toy\.sol"):
        instance = read_vrp(toy)

    assert instance.reference == 40
    assert instance.source == "the file's comment"


@pytest.mark.parametrize(
    "content",
    [
        "Route #1: 1 2\nRoute #2: 3\nCost 30\n",
        "route #1:1 2\r\nroute #2:3\r\ncost: 30\r\n",
        "\ufeffCost 30.0\nRoute 1 : 1\t2\nRoute 2: 3",
        "Solution\n\n  Route #1: 1 2\n  Route #2: 3\n  Cost : 3e1\nTime 12\n",
    ],
)
def test_a_solution_is_read_in_its_usual_spellings(tmp_path, content):
    path = tmp_path / "toy.sol"
    path.write_bytes(content.encode())

    assert read_sol(path) == (30, [[1, 2], [3]])


@pytest.mark.parametrize("word", ["x", "1.5", "1_0", "٣", "-2"])
def test_a_route_of_something_else_is_refused(tmp_path, word):
    path = tmp_path / "toy.sol"
    path.write_text(f"Route #1: 1 {word}\nCost 30\n")

    with pytest.raises(ValueError, match="a route holds something that is no customer number"):
        read_sol(path)


def test_a_solution_without_a_cost_is_refused(tmp_path):
    path = tmp_path / "toy.sol"
    path.write_text("Route #1: 1\n")

    with pytest.raises(ValueError, match=r"toy\.sol states no cost; expected a line such as 'Cost"):
        read_sol(path)
