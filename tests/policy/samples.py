"""Instances and comparisons that the tests of layouts share."""

import torch

from rl4co.envs import TSPEnv

from rl4co_prompt import TaskGenerator


def customers(batch=5):
    return TaskGenerator("11-uniform")(batch, rng=0)


def tsp(batch=5, size=9):
    env = TSPEnv(generator_params={"num_loc": size}, seed=0)
    return env, env.reset(env.generator(batch))


def same(ours, theirs):
    steps = min(ours.shape[-1], theirs.shape[-1])
    return torch.equal(ours[..., :steps], theirs[..., :steps])
