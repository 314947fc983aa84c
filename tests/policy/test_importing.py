import hashlib
import pickle

import numpy as np
import pytest
import torch

from rl4co_prompt import MultiTaskCVRPEnv, PromptedPolicy, TaskGenerator, load_backbone
from rl4co_prompt.policy.backbone import fingerprint, policy_from_weights
from rl4co_prompt.policy.importing import import_weights
from tests.policy.reference import ReferencePOMO, random_kool, random_weights


@pytest.fixture
def kool(tmp_path):
    torch.save({"model": random_kool("cvrp")}, tmp_path / "epoch-99.pt")
    return tmp_path / "epoch-99.pt"


@pytest.fixture
def prompts():
    return torch.randn(4, 1, 5 * 2 * 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def keys():
    return np.random.default_rng(0).random((4, 2 * 2 * 32)) / 10


@pytest.fixture
def promptvrp(tmp_path, prompts, keys):
    weights = random_weights(32, 2, 48) | {"promptpool.prompt": prompts}
    torch.save({"epoch": 1, "model_state_dict": weights}, tmp_path / "checkpoint-10.pt")
    (tmp_path / "keys_new_4").write_bytes(pickle.dumps(keys))
    return tmp_path / "checkpoint-10.pt"


def test_an_import_writes_a_backbone_and_a_card(kool, tmp_path):
    done = import_weights(kool, tmp_path / "to" / "here")
    card = done.card.read_text()

    assert sorted(p.name for p in (tmp_path / "to" / "here").iterdir()) == [
        "epoch-99.md",
        "epoch-99.safetensors",
    ]
    mark = fingerprint(policy_from_weights(random_kool("cvrp")))
    assert fingerprint(load_backbone(done.backbone)) == mark
    for fact in (
        "`epoch-99.pt`",
        hashlib.sha256(kool.read_bytes()).hexdigest(),
        "Kool's attention model",
        "| num_heads | 4 |",
        "| normalization | batch |",
        mark,
    ):
        assert fact in card


def test_prompts_come_with_their_backbone_and_keys(promptvrp, prompts, tmp_path):
    done = import_weights(
        promptvrp, tmp_path / "to", "ours", num_heads=4, keys=tmp_path / "keys_new_4"
    )
    policy = PromptedPolicy.from_pretrained(done.backbone, done.pool)
    env = MultiTaskCVRPEnv()
    td = env.reset(TaskGenerator("9-uniform")(3, rng=0))
    with torch.inference_mode():
        out = policy(td, env, decode_type="multistart_greedy", num_prompts=2)

    assert done.pool.name == "ours-prompts.safetensors"
    assert torch.equal(policy.pool.prompts[1, 1, 4], prompts.view(4, 5, 2, 32)[1, 4, 1])
    assert out["prompt"].shape == (3,)
    assert "4 prompts x 2 layers x 5 tokens" in done.card.read_text()


def test_an_imported_pool_encodes_as_promptvrp_does(promptvrp, prompts, keys, tmp_path):
    done = import_weights(promptvrp, tmp_path, "x", num_heads=4, keys=tmp_path / "keys_new_4")
    policy = PromptedPolicy.from_pretrained(done.backbone, done.pool)
    batch = TaskGenerator("9-uniform")(6, rng=0)
    raw = batch["depot"], batch["locs"], batch["demand"]
    reference = ReferencePOMO(random_weights(32, 2, 48), 4, 2)
    reference.encode(*raw)
    pooled = [x.mean(1) for x in reference.attention] + [x.std(1) for x in reference.attention]
    feature = torch.cat(pooled, -1)
    feature = feature / feature.norm(dim=-1, keepdim=True)
    chosen = (feature[:, None] - torch.tensor(keys).float()).norm(dim=-1).argmin(-1)
    hidden = reference.encode(*raw, prompt=prompts.view(4, 5, 2, 32)[chosen])[:, :10]
    with torch.no_grad():
        td = MultiTaskCVRPEnv().reset(batch)
        found, _ = policy.encoder(td)

    assert policy.explain(td).prompts.tolist() == chosen.tolist()
    assert torch.allclose(found, hidden, atol=1e-5)


def test_prompts_without_keys_are_said_to_lack_them(promptvrp, tmp_path):
    done = import_weights(promptvrp, tmp_path / "to", num_heads=4)

    assert any("No keys" in sentence for sentence in done.assumed)
    assert "No keys" in done.card.read_text()


def test_wrong_imports_get_one_sentence_and_write_nothing(kool, promptvrp, tmp_path):
    folder = tmp_path / "to"
    with pytest.raises(ValueError, match="has no prompts that the keys in"):
        import_weights(kool, folder, keys=tmp_path / "keys_new_4")
    with pytest.raises(ValueError, match="without a folder, got 'a/b'"):
        import_weights(kool, folder, "a/b")
    with pytest.raises(ValueError, match="multiple of 8"):
        import_weights(promptvrp, folder, num_heads=8)
    assert not folder.exists()
    import_weights(kool, folder)
    with pytest.raises(ValueError, match="is there already"):
        import_weights(kool, folder)
    import_weights(kool, folder, force=True)


def test_our_own_files_can_be_imported(kool, tmp_path):
    first = import_weights(kool, tmp_path / "to")
    again = import_weights(first.backbone, tmp_path / "again")

    assert again.config == first.config
    assert again.layout == "rl4co-prompt"
