import numpy as np
import pytest

from rl4co_prompt import Instance, MultiTaskCVRPEnv, PromptedPolicy, PromptPool
from rl4co_prompt.inference.explain import explain_instances
from rl4co_prompt.tasks.instance import as_tensordict


@pytest.fixture
def instances():
    rng = np.random.default_rng(0)
    return [
        Instance(rng.integers(0, 100, (n + 1, 2)), rng.integers(1, 9, n), 20, f"of {n}")
        for n in (5, 9)
    ]


def test_keys_come_in_order_of_distance(policy, instances):
    found = explain_instances(policy, instances)
    td = MultiTaskCVRPEnv().reset(as_tensordict(instances[1:]))

    assert [one["name"] for one in found] == ["of 5", "of 9"]
    for one in found:
        assert one["distances"] == sorted(one["distances"])
        assert sorted(one["keys"]) == list(range(4))
        assert one["prompt"] == one["keys"][0]
    assert found[1]["keys"] == policy.explain(td).keys[0].tolist()


def test_a_single_prompt_has_no_distance(backbone, instances):
    policy = PromptedPolicy(backbone, PromptPool.for_backbone(backbone, 1))

    assert explain_instances(policy, instances)[0]["distances"] == [None]


def test_without_prompts_there_is_nothing_to_explain(backbone, instances):
    with pytest.raises(ValueError, match="no prompts"):
        explain_instances(backbone, instances)
