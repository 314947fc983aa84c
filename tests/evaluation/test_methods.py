from pathlib import Path

import pytest

from rl4co_prompt.evaluation.methods import parse_methods

POOL = Path("pool.safetensors")


def test_names_become_methods():
    found = parse_methods("backbone, prompt,prompt-top8,backbone@64,omni=o.pt,hgs", [POOL])

    assert [m.label for m in found] == [
        "backbone", "prompt", "prompt-top8", "backbone@64", "omni", "hgs",
    ]  # fmt: skip
    assert [m.num_prompts for m in found] == [1, 1, 8, 1, 1, 1]
    assert [m.neural for m in found] == [True] * 5 + [False]
    assert found[3].passes == 64
    assert found[4].weights == Path("o.pt")
    assert found[2].pool == POOL


def test_every_pool_gets_its_rows():
    found = parse_methods("prompt,backbone", [Path("a/one.safetensors"), Path("two.safetensors")])

    assert [m.label for m in found] == ["prompt (one)", "prompt (two)", "backbone"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("prompts", "Unknown method 'prompts'; use backbone"),
        ("prompt-top0", "Unknown method"),
        ("backbone@0", "Unknown method"),
        ("=x.pt", "Unknown method"),
        ("", "Unknown method ''"),
        ("backbone,backbone,prompt", "backbone is named twice"),
        ("prompt-top00", "Unknown method"),
        ("backbone", "A pool is given, but no method that uses it"),
    ],
)
def test_unknown_or_doubled_names_are_told(names, message):
    with pytest.raises(ValueError, match=message):
        parse_methods(names, [POOL])


def test_prompts_need_a_pool():
    with pytest.raises(ValueError, match="needs prompts; give --pool"):
        parse_methods("prompt-top8")


@pytest.mark.parametrize(
    "names", ["prompt-topmany", "prompt-topNone", [None], [3], "backbone@many"]
)
def test_what_is_no_method_is_told_the_known_ones(names, tmp_path):
    with pytest.raises(
        ValueError, match=r"Unknown method '.*'; use backbone, backbone@PASSES, prom"
    ):
        parse_methods(names, [tmp_path / "pool.safetensors"])


@pytest.mark.parametrize("names", [None, []])
def test_no_method_is_told(names):
    with pytest.raises(ValueError, match="Name at least one method: backbone"):
        parse_methods(names)
