import json

import numpy as np
import pytest
import torch

from rl4co.data.transforms import StateAugmentation
from rl4co.utils.ops import unbatchify
from safetensors.torch import save_file

from rl4co_prompt import MultiTaskCVRPEnv, POMOPolicy, TaskGenerator, load_backbone, save_backbone
from rl4co_prompt.policy.backbone import fingerprint, policy_from_weights
from tests.conftest import outside
from tests.policy.reference import ReferencePOMO, random_weights


@pytest.fixture
def weights():
    return random_weights(32, 3, 48)


def test_the_papers_architecture_has_pomos_number_of_parameters():
    assert sum(p.numel() for p in POMOPolicy().parameters()) == 1_254_016


@pytest.mark.parametrize("num_heads", [2, 4])
def test_imported_weights_give_the_reference_encoder_and_tours(weights, num_heads):
    policy = policy_from_weights(weights, num_heads)
    reference = ReferencePOMO(weights, num_heads, layers=3)
    env = MultiTaskCVRPEnv()
    batch = TaskGenerator("12-uniform")(6, rng=0)
    raw = batch["depot"], batch["locs"], batch["demand"]
    with torch.no_grad():
        td = env.reset(batch)
        hidden, _ = policy.encoder(td)
        out = policy(td, env, decode_type="multistart_greedy", num_starts=12)

        assert torch.allclose(hidden, reference.encode(*raw), atol=1e-5)
        tours = reference.rollout(*raw)
    ours = unbatchify(out["actions"], 12)
    steps = min(ours.shape[-1], tours.shape[-1])
    assert torch.equal(ours[..., :steps], tours[..., :steps])


def test_what_a_file_leaves_open_is_told(tmp_path, recwarn):
    """Omni-VRP's files with batch_no_track look like POMO's with instance norm."""
    path = tmp_path / "omni.pt"
    torch.save(random_weights(64, 2, 48), path)
    with pytest.warns(UserWarning, match=r"omni.pt leaves.* 8 heads.*Instance norm.*Omni-VRP"):
        assumed = load_backbone(path)
    recwarn.clear()
    told = load_backbone(path, num_heads=4, normalization="batch_no_track")
    load_backbone(save_backbone(told, tmp_path / "own.safetensors"))

    assert assumed.config["normalization"] == "instance"
    assert told.config["normalization"] == "batch_no_track"
    assert not recwarn.list


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
def test_any_container_of_pomo_weights_is_read(tmp_path, weights, suffix):
    path = tmp_path / f"weights{suffix}"
    extra = {"W_hidden.weight": torch.zeros(4, 4)}  # of AMDKD's distillation
    if suffix == ".npz":
        np.savez(path, **{k: v.numpy() for k, v in (weights | extra).items()})
    elif suffix == ".pt":
        state = {f"module.{k}": v for k, v in weights.items()}
        torch.save({"epoch": 3, "model_state_dict": state}, path)
    else:
        save_file(weights, path)
    policy = load_backbone(path, num_heads=4, normalization="instance")

    assert fingerprint(policy) == fingerprint(policy_from_weights(weights, 4))
    assert not any(p.requires_grad for p in policy.parameters())
    assert not policy.training


def test_batch_norm_is_seen_by_its_statistics():
    weights = random_weights(32, 3, 48, tracked=True)
    policy = policy_from_weights(weights, 4)
    mean = policy.encoder.net.layers[2][3].normalizer.running_mean

    assert policy.config["normalization"] == "batch"
    assert torch.equal(mean, weights["encoder.layers.2.add_n_normalization_2.norm.running_mean"])


def test_an_untracked_norm_takes_the_batch_in_evaluation_too():
    policy = POMOPolicy("cvrp", 16, 2, 2, 32, "batch_no_track").eval()
    env = MultiTaskCVRPEnv("10-uniform", seed=0)
    td = env.reset(batch_size=[6])
    with torch.no_grad():
        whole, part = policy.encoder(td)[0], policy.encoder(td[:3])[0]

    assert not torch.allclose(whole[:3], part, atol=1e-3)
    assert whole.mean((0, 1)).abs().max() < 1e-5  # fresh norms: weight 1, bias 0
    assert not any("running" in name for name in policy.state_dict())


def test_a_backbone_survives_saving_bit_for_bit(tmp_path, backbone):
    again = load_backbone(save_backbone(backbone, tmp_path / "sub" / "backbone.safetensors"))

    assert fingerprint(again) == fingerprint(backbone)
    assert again.config == backbone.config
    assert [p.name for p in (tmp_path / "sub").iterdir()] == ["backbone.safetensors"]


def test_the_fingerprint_sees_one_changed_bit_and_every_setting(backbone, weights):
    marks = [fingerprint(backbone)]
    with torch.no_grad():
        backbone.decoder.pointer.project_out.bias[3] += 1e-6
    marks.append(fingerprint(backbone))
    for module, name, value in (
        (backbone, "tanh_clipping", 5.0),
        (backbone, "temperature", 2.0),
        (backbone.decoder.pointer, "mask_inner", False),
        (backbone.decoder, "use_graph_context", True),
    ):
        setattr(module, name, value)
        marks.append(fingerprint(backbone))

    assert len(set(marks)) == len(marks)
    assert fingerprint(policy_from_weights(weights, 2)) != fingerprint(
        policy_from_weights(weights, 4)
    )


def test_weights_of_another_model_are_described(weights):
    with pytest.raises(ValueError, match=r"unknown layout.*embedder\.x.*layers\.0\.Wq"):
        policy_from_weights({"embedder.x": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"does not have: decoder\.extra\.weight"):
        policy_from_weights(weights | {"decoder.extra.weight": torch.zeros(1)}, 4)


@pytest.mark.parametrize("key", ["decoder.Wk.weight", "encoder.layers.1.feed_forward.W2.bias"])
def test_incomplete_weights_are_named(weights, key):
    del weights[key]
    with pytest.raises(ValueError, match=r"lacks.*incomplete"):
        policy_from_weights(weights, 4)


def test_files_that_are_no_weights_get_one_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No backbone weights at .*none\.pt"):
        load_backbone(tmp_path / "none.pt")
    for name in ("a.pt", "a.npz", "a.safetensors"):
        (tmp_path / name).write_bytes(b"not weights")
        with pytest.raises(ValueError, match="can't be read as weights"):
            load_backbone(tmp_path / name)
    np.savez(tmp_path / "whole.npz", x=np.zeros(1000))
    half = (tmp_path / "whole.npz").read_bytes()[:600]
    (tmp_path / "half.npz").write_bytes(half)
    with pytest.raises(ValueError, match=r"half\.npz can't be read as weights"):
        load_backbone(tmp_path / "half.npz")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ValueError, match="holds no state dict"):
        load_backbone(tmp_path / "list.pt")


def test_a_pickle_with_code_is_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    torch.save({"model_state_dict": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(ValueError, match="weights_only=True"):
        load_backbone(tmp_path / "evil.pt")
    assert not (tmp_path / "ran").exists()


def test_a_saved_backbone_of_other_shapes_is_refused(tmp_path, backbone):
    config = json.dumps(backbone.config | {"embed_dim": 32})
    path = tmp_path / "x.safetensors"
    save_file(
        dict(backbone.state_dict()), path, {"format": "rl4co_prompt.backbone", "config": config}
    )
    with pytest.raises(ValueError, match="another architecture"):
        load_backbone(path)


@pytest.mark.parametrize(("width", "heads"), [(20, 3), (16, 4), (16, 0), (16, -2)])
def test_head_widths_that_rl4co_refuses_are_explained(width, heads):
    with pytest.raises(ValueError, match="multiple of 8"):
        POMOPolicy(embed_dim=width, num_heads=heads)


def test_an_unknown_norm_is_refused():
    with pytest.raises(ValueError, match="instance, batch or batch_no_track, got 'layer'"):
        POMOPolicy(normalization="layer")


@pytest.mark.parametrize(
    ("augment", "gap"), [(False, "2.36"), (True, "1.59")], ids=["n starts", "n starts x 8"]
)
def test_outside_weights_give_the_known_gap(outside_backbone, augment, gap):
    """AMDKD's student on the first 32 instances of MVMoE's uniform set, gap to HGS."""
    env = MultiTaskCVRPEnv(check_solution=True)
    batch = env.load_data(outside("uniform/mvmoe_cvrp100_uniform_0-499.npz"), 32)
    td = env.reset(batch)
    copies = 8 if augment else 1
    td = StateAugmentation(8, "dihedral8")(td) if augment else td
    with torch.inference_mode():
        out = outside_backbone(td, env, decode_type="multistart_greedy", num_starts=100)
    cost = -unbatchify(out["reward"], (copies, 100)).reshape(32, -1).amax(1)
    gaps = 100 * (cost - batch["reference"]) / batch["reference"]

    assert f"{gaps.mean():.2f}" == gap


@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("uniform/mvmoe_cvrp50_uniform", 10.588),
        ("zero_shot/amdkd_val_uniform50", 10.529),
        ("zero_shot/amdkd_val_cluster50", 5.313),
        ("zero_shot/amdkd_val_mixed50", 9.163),
    ],
)
def test_outside_weights_of_another_size_give_their_known_costs(name, cost):
    """AMDKD's n=50 student, best of all starts, mean over the first 100 instances."""
    file = outside("weights/amdkd_pomo_cvrp50.npz")
    backbone = load_backbone(file, num_heads=8, normalization="instance")
    env = MultiTaskCVRPEnv()
    td = env.reset(env.load_data(outside(f"{name}_0-499.npz"), 100))
    with torch.inference_mode():
        out = backbone(td, env, decode_type="multistart_greedy", num_starts=50)

    assert -unbatchify(out["reward"], 50).amax(-1).mean().item() == pytest.approx(cost, abs=6e-4)
