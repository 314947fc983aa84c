"""Tiny policies with every option that decides how a decoder works, and their instances."""

import torch

from rl4co.envs import CVRPEnv, TSPEnv
from rl4co.models.zoo.am import AttentionModelPolicy

from rl4co_prompt import POMOPolicy
from rl4co_prompt.rollout.engine import FastDecoding


class FastPolicy(FastDecoding, AttentionModelPolicy):
    """RL4CO's own policy on our engines."""


SMALL = {"embed_dim": 16, "num_encoder_layers": 2, "num_heads": 2, "feedforward_hidden": 32}
STOCK_OPTIONS = {
    "plain": {},
    "no graph context": {"use_graph_context": False},
    "biases": {"linear_bias_decoder": True, "out_bias_pointer_attn": True},
    "unmasked glimpse": {"mask_inner": False},
    "no clip": {"tanh_clipping": 0.0},
    "hot": {"temperature": 0.5, "tanh_clipping": 5.0},
    "batch norm": {"normalization": "batch"},
    "four heads": {"num_heads": 4, "embed_dim": 32},
    "simple attention": {"sdpa_fn_decoder": "simple"},
}


def make_env(name, size=9):
    return {"cvrp": CVRPEnv, "tsp": TSPEnv}[name](generator_params={"num_loc": size}, seed=0)


def make_policy(name="cvrp", option="plain", seed=0):
    torch.manual_seed(seed)
    if option == "POMO":
        policy = POMOPolicy(env_name=name, **SMALL)
    elif option == "untracked norm":
        policy = POMOPolicy(env_name=name, **SMALL, normalization="batch_no_track")
    else:
        policy = FastPolicy(env_name=name, **SMALL | STOCK_OPTIONS[option])
    return policy.eval()


def instances(env, batch=3, seed=1):
    torch.manual_seed(seed)
    return env.reset(env.generator(batch))
