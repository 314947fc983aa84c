import argparse

from collections import defaultdict, deque

import numpy as np
import pytest
import torch

from omegaconf import OmegaConf
from rl4co.envs import get_env
from rl4co.models import POMO, AttentionModel
from rl4co.models.zoo.am import AttentionModelPolicy
from rl4co.utils import RL4COTrainer
from safetensors.torch import save_file
from torch import nn

from rl4co_prompt import load_backbone
from rl4co_prompt.policy.backbone import fingerprint, policy_from_weights
from rl4co_prompt.policy.reading import read_checkpoint
from tests.policy.reference import random_kool, random_weights

SMALL = {"embed_dim": 16, "num_heads": 2, "feedforward_hidden": 32, "num_encoder_layers": 2}


@pytest.mark.parametrize("nest", ["model_state_dict", "state_dict", "model", "policy"])
def test_nested_weights_are_found_beside_logs_and_optimizers(tmp_path, nest):
    weights = random_weights(32, 2, 48)
    optimizer = {"state": {0: {"step": torch.ones(1)}}, "param_groups": [{"lr": 1.0}]}
    log = defaultdict(list, {"score": [(1, np.float64(2.0))], "when": np.zeros(2)})
    torch.save({"epoch": 3, "optimizer": optimizer, nest: weights, "log": log}, tmp_path / "x.pt")

    assert read_checkpoint(tmp_path / "x.pt").weights.keys() == weights.keys()


class Options(dict):
    """As EasyDict or Lightning's AttributeDict: a dict whose items are attributes, too."""

    def __init__(self, **options):
        super().__init__(options)
        self.__dict__.update(options)


class Losses(list):
    pass


@pytest.mark.parametrize("new", [True, False])
def test_containers_of_other_classes_are_read(tmp_path, new):
    weights = random_weights(32, 2, 48)
    beside = {"options": Options(lr=1.0), "log": deque([1, 2], 5), "losses": Losses([3.0])}
    path = tmp_path / "x.pt"
    torch.save({"model": weights} | beside, path, _use_new_zipfile_serialization=new)
    found = read_checkpoint(path)

    assert found.weights.keys() == weights.keys()
    assert found.beside["options"] == {"lr": 1.0}
    assert (found.beside["log"], found.beside["losses"]) == ([1, 2], [3.0])


class Holder(nn.Module):
    """A module with the names of a state dict below ``inner``."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


def test_a_module_that_was_pickled_whole_gives_its_tensors(tmp_path):
    module = Holder()
    torch.save({"model": module}, tmp_path / "x.pt")
    found = read_checkpoint(tmp_path / "x.pt").weights

    assert found.keys() == module.state_dict().keys()
    assert all(torch.equal(v, found[k]) for k, v in module.state_dict().items())


def test_legacy_files_are_read(tmp_path):
    weights = random_kool("cvrp")
    torch.save({"model": weights}, tmp_path / "x.pt", _use_new_zipfile_serialization=False)

    assert fingerprint(load_backbone(tmp_path / "x.pt")) == fingerprint(
        policy_from_weights(weights)
    )


def test_legacy_files_with_arguments_and_logs_are_read(tmp_path):
    weights = random_kool("cvrp")
    state = {"model": weights, "args": argparse.Namespace(a=1), "log": [np.float64(2.0)]}
    torch.save(state, tmp_path / "x.pt", _use_new_zipfile_serialization=False)
    found = read_checkpoint(tmp_path / "x.pt")

    assert found.weights.keys() == weights.keys()
    assert found.beside["args"].a == 1


def test_legacy_files_with_whole_modules_are_refused_with_the_remedy(tmp_path):
    """PyTorch's safe reader has no way to read them."""
    torch.save({"x": Holder()}, tmp_path / "x.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match="save its state dict alone"):
        read_checkpoint(tmp_path / "x.pt")


def test_weights_below_an_unknown_name_are_found(tmp_path):
    weights = random_weights(32, 2, 48)
    torch.save({"epoch": 3, "best": {"net": weights}}, tmp_path / "x.pt")

    assert read_checkpoint(tmp_path / "x.pt").weights.keys() == weights.keys()


def test_safetensors_under_another_suffix_are_read(tmp_path):
    weights = random_weights(32, 2, 48)
    save_file(weights, tmp_path / "pytorch_model.bin")

    assert read_checkpoint(tmp_path / "pytorch_model.bin").weights.keys() == weights.keys()


def test_objects_in_a_checkpoint_do_nothing(tmp_path):
    ran = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return (open, (str(ran), "w"))

    weights = random_weights(32, 2, 48)
    torch.save({"model": weights, "x": Evil(), "y": argparse.Namespace(a=1)}, tmp_path / "x.pt")
    found = read_checkpoint(tmp_path / "x.pt")

    assert found.weights.keys() == weights.keys()
    assert found.beside["y"].a == 1
    assert not ran.exists()


@pytest.mark.parametrize("name", ["cvrp", "tsp"])
@pytest.mark.parametrize("module", [POMO, AttentionModel])
def test_a_lightning_checkpoint_of_rl4co_gives_its_policy(tmp_path, name, module):
    env = get_env(name, generator_params={"num_loc": 6})
    sizes = {"batch_size": 2, "train_data_size": 2, "val_data_size": 2, "test_data_size": 2}
    model = module(env, policy_kwargs=SMALL, **sizes)
    trainer = RL4COTrainer(
        max_epochs=1,
        accelerator="cpu",
        precision="32",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model)
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    policy = load_backbone(tmp_path / "last.ckpt")

    assert policy.config["use_graph_context"] == (module is AttentionModel)
    assert fingerprint(policy) == fingerprint(model.policy)


@pytest.mark.parametrize("wrap", [dict, OmegaConf.create])
def test_hyper_parameters_tell_what_the_weights_do_not(tmp_path, wrap):
    options = {**SMALL, "use_graph_context": False, "tanh_clipping": 5.0}
    stock = AttentionModelPolicy(env_name="cvrp", **options)
    state = {f"policy.{k}": v for k, v in stock.state_dict().items()}
    parameters = {"policy_kwargs": wrap(options)}
    torch.save({"state_dict": state, "hyper_parameters": parameters}, tmp_path / "x.ckpt")

    assert fingerprint(load_backbone(tmp_path / "x.ckpt")) == fingerprint(stock)


def test_a_mixture_of_experts_is_told(tmp_path):
    experts = {"encoder": {"hidden_act": "ReLU", "num_experts": 2, "k": 1}, "decoder": None}
    stock = AttentionModelPolicy(env_name="cvrp", **SMALL, moe_kwargs=experts)
    torch.save(stock.state_dict(), tmp_path / "x.pt")

    with pytest.raises(ValueError, match=r"x\.pt has a mixture of experts; expected plain"):
        load_backbone(tmp_path / "x.pt")


def test_a_file_without_weights_lists_what_it_holds(tmp_path):
    torch.save({"epoch": 3, "args": {"lr": 1.0}}, tmp_path / "x.pt")
    with pytest.raises(ValueError, match=r"holds no state dict.* a dict; .*epoch, args; expected"):
        load_backbone(tmp_path / "x.pt")
