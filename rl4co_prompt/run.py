"""Train and test from Hydra configs: ``python -m rl4co_prompt.run experiment=prompt/cvrp``."""

import os
import sys

import hydra

from hydra.errors import InstantiationException
from omegaconf import DictConfig, OmegaConf

from rl4co_prompt._configs import config_dir

_BAD_INPUT = (ValueError, TypeError, OSError, ImportError)


def run(cfg: DictConfig) -> dict:
    """Train and test as the config says. -> the last values of all metrics"""
    import lightning

    from rl4co.utils import extras, instantiate_callbacks, instantiate_loggers, log_hyperparameters

    from rl4co_prompt.tasks.problems import check_problem

    extras(cfg)
    if str(cfg.get("ckpt_path")).endswith(".safetensors"):
        raise ValueError(
            "ckpt_path takes a .ckpt file of a run; a saved pool goes in pool=FILE, a saved "
            "backbone in weights=FILE."
        )
    if cfg.get("seed") is not None:
        lightning.seed_everything(cfg.seed, workers=True, verbose=False)
    env = hydra.utils.instantiate(cfg.env)
    model = hydra.utils.instantiate(cfg.model, env)
    check_problem(env, getattr(model.policy, "env_name", env.name))
    callbacks = instantiate_callbacks(cfg.get("callbacks"))
    logger = instantiate_loggers(cfg.get("logger"), model)
    trainer = hydra.utils.instantiate(cfg.trainer, callbacks=callbacks, logger=logger)
    log_hyperparameters({"cfg": cfg, "model": model, "trainer": trainer})
    metrics: dict = {}
    if cfg.get("train"):
        trainer.fit(model, ckpt_path=cfg.get("ckpt_path"))
        metrics |= trainer.callback_metrics
    elif not any(cfg.get(name) for name in ("ckpt_path", "pool", "weights")):
        what, name = ("policy", "weights") if "weights" in cfg else ("pool", "pool")
        print(
            f"Note: the {what} is untrained; name a trained one by {name}= or ckpt_path=.",
            file=sys.stderr,
        )
    if cfg.get("test"):
        # After training the model holds the last weights; alone, the ones that are named.
        trainer.test(model, ckpt_path=None if cfg.get("train") else cfg.get("ckpt_path"))
        metrics |= trainer.callback_metrics
    return metrics


@hydra.main(version_base="1.3", config_path=str(config_dir()), config_name="main")
def main(cfg: DictConfig) -> float | None:
    """Entry point; returns ``optimized_metric`` for Hydra's sweepers, if the config names one."""
    try:
        metrics = run(cfg)
    except (InstantiationException, *_BAD_INPUT) as error:
        cause = error.__cause__ if isinstance(error, InstantiationException) else error
        if os.environ.get("HYDRA_FULL_ERROR") == "1" or not isinstance(cause, _BAD_INPUT):
            raise
        sys.exit(f"Error: {cause}")
    name = OmegaConf.select(cfg, "optimized_metric")
    return None if name is None else float(metrics[name])


if __name__ == "__main__":
    main()
