from dataclasses import replace

import pytest
import torch

from lightning.pytorch.callbacks import ModelCheckpoint

from rl4co_prompt import MultiTaskCVRPEnv, POMOPolicy, PromptedPolicy, PromptPOMO, PromptPool
from tests.training.runs import Recorder, fit, make_model, make_policy, make_trainer


@pytest.mark.parametrize(
    "when", [{"save_on_train_epoch_end": True}, {"monitor": "val/max_reward", "mode": "max"}]
)
def test_a_killed_run_resumes_with_the_same_losses(keys, tmp_path, when):
    validate = {"limit_val_batches": 1}
    whole_policy, whole = fit(keys, epochs=4, trainer=validate)
    checkpoint = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1, **when)
    killed = Recorder(stop_at=(2, 0))
    with pytest.raises((SystemExit, KeyboardInterrupt)):
        make_trainer(4, [killed, checkpoint], **validate).fit(make_model(make_policy(keys)))
    policy, rest = fit(keys, epochs=4, trainer=validate, ckpt_path=tmp_path / "epoch=1.ckpt")

    assert killed.steps == whole[:5]
    assert rest == whole[4:]
    assert torch.equal(policy.pool.prompts, whole_policy.pool.prompts)


def test_a_checkpoint_from_the_middle_of_an_epoch_is_refused(keys, tmp_path):
    every = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=1, save_top_k=-1)
    fit(keys, callbacks=[every])
    with pytest.raises(ValueError, match="in the middle of an epoch"):
        fit(keys, ckpt_path=tmp_path / "step=3.ckpt")
    trainer = make_trainer()
    trainer.test(make_model(make_policy(keys)), ckpt_path=tmp_path / "step=3.ckpt", verbose=False)


@pytest.fixture
def checkpoint(keys, tmp_path):
    policy, _ = fit(keys, callbacks=[ModelCheckpoint(tmp_path, filename="last")])
    return tmp_path / "last.ckpt", policy


def test_checkpoints_hold_the_pool_alone_and_load_with_weights_only(checkpoint):
    state = torch.load(checkpoint[0], weights_only=True)

    assert {key.split(".")[-1] for key in state["state_dict"]} == {
        "prompts",
        "keys",
        "feature_mean",
        "feature_std",
    }
    assert state["backbone"] == checkpoint[1].fingerprint


def test_a_checkpoint_restores_the_pool(checkpoint, keys):
    path, trained = checkpoint
    policy = make_policy(keys)
    PromptPOMO.load_from_checkpoint(path, env=MultiTaskCVRPEnv(), policy=policy)

    assert torch.equal(policy.pool.prompts, trained.pool.prompts)


def test_testing_a_checkpoint_works_through_the_trainer(checkpoint, keys):
    trainer = make_trainer()
    found = trainer.test(make_model(make_policy(keys)), ckpt_path=checkpoint[0], verbose=False)

    assert {"test/max_reward", "test/max_aug_reward"} <= found[0].keys()


def test_a_checkpoint_of_another_pool_is_refused(checkpoint, keys):
    with pytest.raises(ValueError, match="pool differs in prompts, tokens, feature or gate"):
        fit(keys, pool={"gated": True}, ckpt_path=checkpoint[0])


def test_another_length_of_the_run_is_refused(checkpoint, keys):
    with pytest.raises(ValueError, match="a run of 2 epochs and this one has 5"):
        fit(keys, epochs=5, ckpt_path=checkpoint[0])


def test_a_checkpoint_of_another_backbone_is_refused(checkpoint, keys):
    torch.manual_seed(5)
    other = POMOPolicy(embed_dim=16, num_encoder_layers=2, num_heads=2, feedforward_hidden=32)
    foreign = replace(keys, backbone=None)
    policy = PromptedPolicy(other, PromptPool.for_backbone(other, 4, 2).set_keys(foreign))
    with pytest.raises(ValueError, match="checkpoint belongs to backbone"):
        PromptPOMO.load_from_checkpoint(checkpoint[0], env=MultiTaskCVRPEnv(), policy=policy)
