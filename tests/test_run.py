import os
import subprocess
import sys

from pathlib import Path

import pytest
import torch

from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from rl4co_prompt import POMOPolicy, PromptPool, save_backbone
from rl4co_prompt._configs import config_dir

EXPERIMENTS = sorted(
    str(path.relative_to(config_dir() / "experiment").with_suffix(""))
    for path in (config_dir() / "experiment").rglob("*.yaml")
)
OTHERS = ("tsp", "cvrptw", "op", "pctsp", "pdp")
SMALL = [
    "trainer.max_epochs=2",
    "trainer.accelerator=cpu",
    "trainer.devices=1",
    "trainer.check_val_every_n_epoch=1",
    "model.train_data_size=4",
    "model.batch_size=2",
    "model.val_data_size=2",
    "model.test_data_size=2",
    "model.val_tasks=[10-uniform,11-grid]",
    "tasks=[10-uniform,12-gaussian]",
    "model.policy.key_options.per_task=8",
    "model.policy.key_options.groups=2",
    "model.policy.pool_options.num_prompts=4",
]


def start(folder, *arguments, module=("-m", "rl4co_prompt.run")):
    environment = {**os.environ, "HYDRA_FULL_ERROR": "0", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *module, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )


@pytest.fixture
def weights(backbone, tmp_path):
    return save_backbone(backbone, tmp_path / "backbone.safetensors")


def test_there_are_the_promised_experiments():
    assert {"prompt/cvrp", "prompt/cvrp_paper", "prompt/cvrp_cpu"} <= set(EXPERIMENTS)
    assert {f"prompt/{name}" for name in OTHERS} <= set(EXPERIMENTS)


@pytest.mark.parametrize("experiment", ["prompt/cvrp", "prompt/cvrp_cpu", "prompt/cvrp_paper"])
def test_every_experiment_composes_and_builds(experiment, weights, tmp_path):
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        cfg = compose(
            "main",
            [f"experiment={experiment}", f"backbone={weights}", f"paths.root_dir={tmp_path}",
             "paths.output_dir=.", *SMALL[-5:]],
        )  # fmt: skip
    model = instantiate(cfg.model, instantiate(cfg.env))
    paper = experiment == "prompt/cvrp_paper"

    assert model.policy.pool.feature == ("paper" if paper else "code")
    assert model.policy.pool.prompts.abs().max() <= (1.0 if paper else 0.1)
    assert model.policy.train_decode_type == f"multistart_{'greedy' if paper else 'sampling'}"
    assert model.batch_follows_size == (experiment == "prompt/cvrp")
    instantiate(cfg.trainer)


def composed(experiment, folder, *words):
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        return compose(
            "main",
            [f"experiment={experiment}", f"paths.root_dir={folder}", "paths.output_dir=.",
             "trainer.accelerator=cpu", "trainer.devices=1", "trainer.default_root_dir=null",
             *words],
        )  # fmt: skip


def fit_one_batch(cfg):
    """-> the model, and what of its policy has moved"""
    model = instantiate(cfg.model, instantiate(cfg.env))
    trainer = instantiate(
        cfg.trainer, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        limit_val_batches=1,
    )  # fmt: skip
    before = {key: value.clone() for key, value in model.policy.state_dict().items()}
    trainer.fit(model)
    after = model.policy.state_dict()
    return model, {key for key, value in before.items() if not torch.equal(value, after[key])}


@pytest.mark.parametrize("problem", OTHERS)
def test_experiments_of_other_problems_run(problem, tmp_path):
    """One batch, on two sizes and maps."""
    backbone = POMOPolicy(problem, 16, num_encoder_layers=2, num_heads=2, feedforward_hidden=32)
    weights = save_backbone(backbone, tmp_path / "backbone.safetensors")
    small = [word for word in SMALL if not word.startswith(("tasks", "model.val_tasks"))]
    tasks = ["tasks=[10-uniform,12-gaussian]", "model.val_tasks=[10-uniform,12-grid]"]
    cfg = composed(f"prompt/{problem}", tmp_path, f"backbone={weights}", *small, *tasks)
    model, moved = fit_one_batch(cfg)

    assert moved == {"encoder.pool.prompts"}
    assert {task.name for task in model.schedule.tasks} == {
        f"{problem}:10-uniform",
        f"{problem}:12-gaussian",
    }


@pytest.mark.parametrize("problem", ["tsp", "op"])
def test_a_backbone_of_another_problem_can_be_trained(problem, tmp_path):
    words = ["size=10", "model.train_data_size=4", "model.batch_size=4", "trainer.max_epochs=1"]
    net = "{embed_dim: 16, num_encoder_layers: 2, num_heads: 2, feedforward_hidden: 32}"
    words += [f"problem={problem}", f"model.policy.options={net}", "model.val_data_size=2"]
    cfg = composed("backbone/pomo", tmp_path, *words)
    model, moved = fit_one_batch(cfg)

    assert model.policy.env_name == problem
    assert len(moved) > 5


TINY = "{embed_dim: 16, num_encoder_layers: 2, num_heads: 2, feedforward_hidden: 32}"
RECIPE = {
    "zoo/distill": ["teacher_50={0}", "teacher_100={0}", f"model.policy.options={TINY}"],
    "zoo/refine": ["teacher_50={0}", "teacher_100={0}", "weights={0}"],
    "zoo/refine_100": ["teacher_50={0}", "teacher_100={0}", "weights={0}"],
    "zoo/refine_x": ["teacher_50={0}", "teacher_100={0}", "weights={0}"],
    "zoo/refine_best": ["teacher_50={0}", "teacher_100={0}", "weights={0}"],
    "zoo/pomo_paper": [f"model.policy.options={TINY}"],
    **{
        f"baselines/{name}{size}": [f"model.policy.options={TINY}", *more]
        for size in ("", "_cpu")
        for name, more in (
            ("pomo", []),
            ("pomo_multi", ["tasks=[10-uniform,12-grid]"]),
            ("meta_pomo", ["tasks=[10-uniform,12-grid]"]),
            ("omni", ["tasks=[10-uniform,12-grid]"]),
        )
    },
    "zoo/prompts": [
        "teacher_50={0}",
        "teacher_100={0}",
        "backbone={0}",
        "model.policy.key_options={tasks: [10-uniform, 12-grid], per_task: 8, groups: 2}",
        "model.policy.pool_options.num_prompts=4",
        "model.policy.spread={tasks: [10-uniform], steps: 2}",
    ],
}


def test_every_other_experiment_is_tried():
    elsewhere = ("prompt", "backbone")
    assert set(RECIPE) == {name for name in EXPERIMENTS if not name.startswith(elsewhere)}


@pytest.mark.parametrize("experiment", RECIPE)
def test_an_experiment_runs(experiment, weights, tmp_path):
    """A batch of each."""
    given = [word.replace("{0}", str(weights)) for word in RECIPE[experiment]]
    sizes = ["model.train_data_size=2", "model.batch_size=2", "model.val_tasks=[10-uniform]"]
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        cfg = compose(
            "main",
            [f"experiment={experiment}", f"paths.root_dir={tmp_path}", *given, *sizes,
             "paths.output_dir=.", "trainer.accelerator=cpu", "trainer.devices=1",
             "trainer.default_root_dir=null", "trainer.max_epochs=1"],
        )  # fmt: skip
    model = instantiate(cfg.model, instantiate(cfg.env))
    trainer = instantiate(
        cfg.trainer, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        limit_val_batches=0,
    )  # fmt: skip
    before = {key: value.clone() for key, value in model.policy.state_dict().items()}
    trainer.fit(model)
    moved = {key for key, value in model.policy.state_dict().items()
             if not torch.equal(value, before[key])}  # fmt: skip

    pool = {"encoder.pool.prompts", "encoder.pool.gate"}
    assert moved == pool if experiment == "zoo/prompts" else len(moved) > 5


def test_a_run_trains_tests_resumes_and_tests_alone(weights, tmp_path):
    """End to end by command: the pool file, the checkpoints and the log are there and load."""
    common = ["experiment=prompt/cvrp", f"backbone={weights}", *SMALL]
    first = start(tmp_path, *common, "hydra.run.dir=one")
    assert first.returncode == 0, first.stderr[-2000:]
    assert "test/max_aug_reward/11" in first.stdout
    pool = PromptPool.load(tmp_path / "one" / "pool.safetensors")
    header = (tmp_path / "one" / "csv" / "version_0" / "metrics.csv").read_text().splitlines()[0]
    assert {"train/loss", "val/max_reward/10-uniform", "usage/prompt_03"} <= set(header.split(","))

    refused = start(
        tmp_path, *common, "trainer.max_epochs=3", "ckpt_path=one/checkpoints/last.ckpt"
    )
    assert "Error: The checkpoint is of a run of 2 epochs and this one has 3" in refused.stderr
    longer = ["trainer.max_epochs=3", "hydra.run.dir=two", "ckpt_path=one/checkpoints/last.ckpt"]
    longer.append("model.lr_milestones=[]")
    second = start(tmp_path, *common, *longer, "test=false")
    assert second.returncode == 0, second.stderr[-2000:]
    resumed = PromptPool.load(tmp_path / "two" / "pool.safetensors")
    assert not torch.equal(resumed.prompts, pool.prompts)
    assert torch.equal(resumed.keys, pool.keys)

    alone = ["train=false", "test=true", "pool=one/pool.safetensors", "hydra.run.dir=three"]
    third = start(tmp_path, *common, *alone)
    assert third.returncode == 0, third.stderr[-2000:]
    assert third.stdout[third.stdout.index("Test metric") :] in first.stdout


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "backbone=none.pt",
            "Error: No backbone weights at none.pt; give a file, or the name cvrp.",
        ),
        ("tasks=[10-x]", "Error: Unknown geometry 'x'"),
        ("model.policy.pool_options.feature=y", "Error: Unknown feature 'y'"),
        (
            "pool=none.safetensors",
            "Error: No prompt pool at none.safetensors; give a file, or the name cvrp.",
        ),
        ("env.test_file=none.npz", "Error: No instances at ./none.npz, the test file."),
        ("ckpt_path=none.ckpt", "none.ckpt"),
        ("ckpt_path=pool.safetensors", "Error: ckpt_path takes a .ckpt file"),
    ],
)
def test_bad_settings_end_with_one_sentence(weights, tmp_path, override, message):
    result = start(tmp_path, "experiment=prompt/cvrp", f"backbone={weights}", *SMALL, override)

    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr


STUB = {
    "main.yaml": "defaults: [_self_, {env: default}, {model: default}, {callbacks: default}, "
    "{logger: csv}, {trainer: default}, {paths: default}, {experiment: base}]\nmode: train\n"
    "model: {metrics: {val: [reward]}}\n",
    "env/default.yaml": "name: tsp\n",
    "model/default.yaml": "generate_default_data: true\n",
    "callbacks/default.yaml": "{}\n",
    "logger/csv.yaml": "csv: {save_dir: here}\n",
    "trainer/default.yaml": "max_epochs: 7\n",
    "paths/default.yaml": "{root_dir: ., output_dir: ., log_dir: logs}\n",
    "experiment/base.yaml": "# @package _global_\nseed: 1\n",
}
APP = """
import sys
import hydra

@hydra.main(version_base="1.3", config_path="configs", config_name="main.yaml")
def main(cfg):
    gap = "gap" in cfg.model.metrics.val
    print(cfg.model._target_, cfg.trainer.max_epochs, cfg.mode, gap, "torch" in sys.modules)

main()
"""


def test_an_rl4co_clone_finds_our_experiments_without_importing_torch(tmp_path):
    for name, text in STUB.items():
        path = tmp_path / "configs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "run.py").write_text(APP)
    result = start(tmp_path, "experiment=prompt/cvrp", module=("run.py",))

    assert result.returncode == 0, result.stderr[-2000:]
    target = "rl4co_prompt.training.prompt_pomo.PromptPOMO"
    assert result.stdout.split() == [target, "10000", "train", "True", "False"]


def test_the_config_tree_is_found_beside_the_package():
    assert config_dir() == Path(__file__).resolve().parents[1] / "configs"
