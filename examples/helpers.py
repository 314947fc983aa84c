"""What the examples share: a backbone, test instances with reference costs, and gaps."""

import logging
import warnings

import numpy as np
import torch

from lightning.pytorch.callbacks import RichProgressBar
from rl4co.models.zoo.pomo import POMO
from rl4co.utils import RL4COTrainer

from rl4co_prompt import MultiTaskCVRPEnv, POMOPolicy, load_backbone
from rl4co_prompt.evaluation.evaluate import SolverOptions, add_references, half_interval
from rl4co_prompt.evaluation.suites import load_suite
from rl4co_prompt.inference.solution import Solution
from rl4co_prompt.tasks.data import BACKBONE, outside_data
from rl4co_prompt.tasks.instance import Instance


def get_backbone() -> tuple[POMOPolicy, int]:
    """A frozen policy and the size it was trained on: outside weights, else a tiny own one."""
    weights = outside_data(BACKBONE)
    if weights is not None:
        print(f"Backbone: {weights.name}, trained at n=100.")
        return load_backbone(weights, num_heads=8, normalization="instance"), 100
    print("Backbone: no outside weights at hand, so a tiny one is trained at n=20 first.")
    return train_tiny_backbone(), 20


def train_tiny_backbone(num_loc: int = 20, epochs: int = 5, instances: int = 3_200) -> POMOPolicy:
    """About a minute of plain POMO on two cores."""
    torch.manual_seed(1234)
    policy = POMOPolicy(embed_dim=64, num_encoder_layers=3, feedforward_hidden=128)
    env = MultiTaskCVRPEnv(f"{num_loc}-uniform", check_solution=False)
    sizes = {"train_data_size": instances, "val_data_size": 64, "test_data_size": 64}
    model = POMO(env, policy, batch_size=64, optimizer_kwargs={"lr": 1e-3}, **sizes)
    quiet_trainer(max_epochs=epochs, limit_val_batches=0).fit(model)
    return policy.eval().requires_grad_(False)


def quiet_trainer(**options) -> RL4COTrainer:
    """Full precision, one progress bar, nothing written to disk."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="lightning")
    callbacks = options.pop("callbacks", [RichProgressBar(leave=False)])
    return RL4COTrainer(
        accelerator="auto",
        devices=1,
        precision="32",
        gradient_clip_val=0,
        matmul_precision="highest",
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        callbacks=callbacks,
        **options,
    )


def test_instances(num_loc: int, count: int) -> list[Instance]:
    """Uniform instances with HGS costs: a published set, else generated and solved with hygese."""
    options = SolverOptions(seconds=0.5)
    sets = add_references(load_suite(f"uniform-{num_loc}", count), "hgs", options)
    print(f"Test instances: {count} of {sets[0].source}, reference: {sets[0].reference_source}.")
    return list(sets[0].instances)


def mean_gap(solutions: list[Solution]) -> tuple[float, float]:
    """Mean gap in percent, and half its 95 % interval."""
    gaps = np.array([100 * solution.gap for solution in solutions])
    return float(gaps.mean()), half_interval([gaps])
