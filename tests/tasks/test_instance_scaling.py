"""unit_square: coordinates as the model wants them."""

import numpy as np
import pytest

from hypothesis import given, settings, strategies as st

from rl4co_prompt.tasks.instance import unit_square


def points(*pairs):
    return np.array(pairs, dtype=float)


def test_fit_keeps_the_aspect_ratio_and_fills_the_unit_square():
    scaled = unit_square(points([100, 1000], [300, 1050], [200, 1100]))

    assert scaled.tolist() == [[0, 0], [1, 0.25], [0.5, 0.5]]


@pytest.mark.parametrize("scaling", ["fit", "x-range", "thousand"])
def test_every_scaling_keeps_the_ratios_of_distances(scaling):
    xy = np.random.default_rng(0).random((20, 2)) * (900, 300) - 50
    scaled = unit_square(xy, scaling)
    before, after = (np.linalg.norm(x[1:] - x[0], axis=1) for x in (xy, scaled))

    assert after / after[0] == pytest.approx(before / before[0])


def test_x_range_moves_and_shrinks_both_axes_as_x():
    scaled = unit_square(points([100, 1000], [300, 1050]), "x-range")

    assert scaled.tolist() == [[0, 4.5], [1, 4.75]]


def test_thousand_divides_by_a_thousand():
    assert unit_square(points([100, 1000], [300, 0]), "thousand").tolist() == [[0.1, 1], [0.3, 0]]


def test_points_of_the_unit_square_stay():
    xy = points([0.1, 0.2], [0.4, 0.9])

    assert unit_square(xy).tolist() == xy.tolist()


@pytest.mark.parametrize(
    "xy", [points([0.1, 0.1], [0.3, 0.2]), points([-0.1, 0], [0.9, 1]), points([0, 0], [2, 1])]
)
def test_points_that_use_little_of_the_unit_square_or_leave_it_are_moved(xy):
    scaled = unit_square(xy)

    assert scaled.min() == 0
    assert scaled.max() == pytest.approx(1)


@pytest.mark.parametrize("scaling", ["fit", "x-range", "thousand"])
@pytest.mark.parametrize("place", [0.0, 5.0, -3.0, 1e12])
def test_coincident_points_give_finite_coordinates(scaling, place):
    scaled = unit_square(np.full((4, 2), place), scaling)

    assert np.isfinite(scaled).all()
    assert (scaled == scaled[0]).all()


def test_an_unknown_scaling_is_refused():
    with pytest.raises(
        ValueError, match=r"^Unknown scaling 'log'; use fit, x-range or thousand\.$"
    ):
        unit_square(np.zeros((2, 2)), "log")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(*[st.floats(-1e12, 1e12) | st.sampled_from([0.0, 1.0, 1e12, 5e-324])] * 2),
        min_size=2,
        max_size=6,
    )
)
def test_fit_stays_in_the_unit_square_for_any_points(pairs):
    scaled = unit_square(np.array(pairs))

    assert (scaled >= 0).all()
    assert (scaled <= 1 + 1e-6).all()
