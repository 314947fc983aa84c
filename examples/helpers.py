"""What the examples share: a backbone, test instances with reference costs, and gaps."""

import logging
import warnings

import torch

from lightning.pytorch.callbacks import RichProgressBar
from rl4co.data.transforms import StateAugmentation
from rl4co.models.zoo.pomo import POMO
from rl4co.utils import RL4COTrainer
from rl4co.utils.ops import unbatchify
from tensordict import TensorDict

from rl4co_prompt import MultiTaskCVRPEnv, POMOPolicy, load_backbone
from rl4co_prompt.tasks.data import BACKBONE, outside_data


def get_backbone() -> tuple[POMOPolicy, int]:
    """A frozen policy and the size it was trained on: outside weights, else a tiny own one."""
    weights = outside_data(BACKBONE)
    if weights is not None:
        print(f"Backbone: {weights.name}, trained at n=100.")
        return load_backbone(weights), 100
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


def test_instances(num_loc: int, count: int) -> TensorDict:
    """Uniform instances with HGS costs: a published set, else generated and solved with hygese."""
    published = outside_data(f"uniform/mvmoe_cvrp{num_loc}_uniform_0-499.npz")
    if published is not None:
        print(f"Test instances: the first {count} of {published.name}, with its HGS costs.")
        return MultiTaskCVRPEnv.load_data(published, count)
    print(f"Test instances: {count} generated with seed 2023, HGS for half a second each.")
    td = MultiTaskCVRPEnv(f"{num_loc}-uniform").generator(count, rng=2023)
    return td.set("reference", torch.tensor([hgs_cost(instance) for instance in td]))


def hgs_cost(instance: TensorDict, seconds: float = 0.5, scale: float = 10_000) -> float:
    """Cost of HGS-CVRP on one generated instance."""
    try:
        import hygese
    except ImportError:
        raise SystemExit("Reference costs need HGS: pip install rl4co-prompt[hgs]") from None
    xy = scale * torch.cat((instance["depot"][None], instance["locs"])).double()
    demand = (instance["demand"] * instance["capacity"]).round()
    data = {
        "x_coordinates": xy[:, 0].numpy(),
        "y_coordinates": xy[:, 1].numpy(),
        "service_times": [0.0] * len(xy),
        "demands": [0.0, *demand.tolist()],
        "vehicle_capacity": float(instance["capacity"]),
        "num_vehicles": len(demand),
        "depot": 0,
    }
    solver = hygese.Solver(hygese.AlgorithmParameters(timeLimit=seconds, seed=1), verbose=False)
    return solver.solve_cvrp(data, rounding=False).cost / scale


@torch.inference_mode()
def solve(policy, env, td: TensorDict, augment: bool = False, **options) -> tuple:
    """Best cost and tour of each instance over all starts (and the eight symmetry copies)."""
    td, copies = env.reset(td.to(next(policy.parameters()).device)), 8 if augment else 1
    td = StateAugmentation(8, "dihedral8")(td) if augment else td
    starts = env.get_num_starts(td)
    out = policy(td, env, decode_type="multistart_greedy", num_starts=starts, **options)
    reward = unbatchify(out["reward"], (copies, starts)).reshape(-1, copies * starts)
    tours = unbatchify(out["actions"], (copies, starts)).flatten(1, -2)
    best = reward.argmax(1)
    return -reward.amax(1).cpu(), tours[torch.arange(len(best)), best].cpu()


def gap(cost: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Gap of each instance in percent."""
    return 100 * (cost - reference) / reference


def plot_routes(ax, td: TensorDict, tour: torch.Tensor, title: str):
    """Draw one instance and its tour."""
    xy = torch.cat((td["depot"][None], td["locs"]))
    route: list[int] = []
    for node in [*tour.tolist(), 0]:
        if node:
            route.append(node)
        elif route:
            ax.plot(*xy[[0, *route, 0]].T, linewidth=1)
            route = []
    ax.scatter(*td["locs"].T, s=8, color="0.3", zorder=2)
    ax.scatter(*td["depot"], marker="s", s=45, color="black", zorder=3)
    ax.set(
        title=title, xticks=[], yticks=[], aspect="equal", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03)
    )
    return ax
