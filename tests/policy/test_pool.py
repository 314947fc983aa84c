import pytest
import torch

from safetensors.torch import save_file

from rl4co_prompt import PromptPool
from rl4co_prompt.policy.pool import Keys


def small_pool(**options):
    return PromptPool(4, num_tokens=3, num_layers=2, embed_dim=1, **options)


def simple_keys(count=4, width=4, feature="code"):
    return Keys(torch.eye(count, width), torch.zeros(width), torch.ones(width), feature)


def test_select_returns_the_nearest_keys_in_order():
    pool = small_pool().set_keys(simple_keys())
    feature = torch.tensor([[0.0, 0.9, 0.3, 0.1], [0.7, 0.1, 0.0, 0.6]])

    assert pool.select(feature, 3).tolist() == [[1, 2, 3], [0, 3, 1]]
    assert pool(pool.select(feature)[:, 0]).shape == (2, 2, 3, 1)


def test_more_prompts_than_there_are_means_all():
    pool = small_pool().set_keys(simple_keys())

    assert sorted(pool.select(torch.rand(1, 4), 99)[0].tolist()) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="num_prompts must be at least 1, got 0"):
        pool.select(torch.rand(1, 4), 0)


def test_the_paper_variant_standardises_before_it_measures():
    pool = PromptPool(2, 1, 2, 1, feature="paper")
    pool.set_keys(
        Keys(
            torch.tensor([[0.0, 0.0], [1.0, 1.0]]),
            torch.tensor([10.0, 0]),
            torch.tensor([2.0, 1]),
            "paper",
        )
    )

    assert pool.distances(torch.tensor([[12.0, 1.0]])).tolist() == [pytest.approx([2**0.5, 0.0])]


def test_a_pool_without_keys_says_so():
    with pytest.raises(ValueError, match="no keys yet; run fit_keys"):
        small_pool().select(torch.rand(1, 4))


def test_a_pool_of_one_prompt_needs_no_keys():
    pool = PromptPool(1, 1, 2, 1)

    assert pool.select(torch.rand(3, 4)).tolist() == [[0], [0], [0]]


def test_features_of_another_width_are_refused():
    with pytest.raises(ValueError, match="features have 7 numbers and the keys 4"):
        small_pool().set_keys(simple_keys()).select(torch.rand(1, 7))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (simple_keys(3), r"keys are \[3, 4\], the pool needs \[4, 4\]"),
        (simple_keys(width=5), r"keys are \[4, 5\]"),
        (simple_keys(feature="paper"), "of feature 'paper', the pool of 'code'"),
        (Keys(torch.full((4, 4), torch.nan), torch.zeros(4), torch.ones(4), "code"), "NaN"),
    ],
)
def test_keys_that_do_not_fit_are_refused(keys, message):
    with pytest.raises(ValueError, match=message):
        small_pool().set_keys(keys)


@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0])
def test_prompts_start_uniform_at_their_scale(scale):
    torch.manual_seed(0)
    prompts = PromptPool(16, 5, 6, 32, init_scale=scale).prompts

    assert prompts.abs().max() <= scale
    # 15,360 draws: deviation of U(-s, s) is s / sqrt(3), its relative error below 1 %.
    assert prompts.std().item() == pytest.approx(scale / 3**0.5, rel=0.02)


def test_keys_are_buffers_and_prompts_the_only_parameters():
    assert [name for name, _ in small_pool().named_parameters()] == ["prompts"]
    assert {name for name, _ in small_pool(gated=True).named_parameters()} == {"prompts", "gate"}


@pytest.mark.parametrize("gated", [False, True])
def test_a_pool_survives_saving_bit_for_bit(tmp_path, gated):
    pool = small_pool(gated=gated).set_keys(simple_keys())
    pool.tasks, pool.backbone_fingerprint = ("50-uniform", "100-grid"), "abc"
    again = PromptPool.load(pool.save(tmp_path / "pool.safetensors"))

    assert again.state_dict().keys() == pool.state_dict().keys()
    assert all(torch.equal(v, again.state_dict()[k]) for k, v in pool.state_dict().items())
    assert (again.tasks, again.backbone_fingerprint, again.feature) == (pool.tasks, "abc", "code")
    assert (again.num_prompts, again.num_layers, again.num_tokens) == (4, 2, 3)


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = small_pool().save(tmp_path / "pool.safetensors")
    old = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        small_pool().save(path)

    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["pool.safetensors"]


def test_files_that_are_no_pools_get_one_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="No prompt pool at"):
        PromptPool.load(tmp_path / "none.safetensors")
    (tmp_path / "junk.safetensors").write_bytes(b"junk")
    with pytest.raises(ValueError, match="not a readable"):
        PromptPool.load(tmp_path / "junk.safetensors")
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="not a prompt pool"):
        PromptPool.load(tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match=r"must end in \.safetensors"):
        small_pool().save(tmp_path / "pool.pt")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_prompts": 0}, "num_prompts must be at least 1, got 0"),
        ({"num_tokens": -1}, "num_tokens must be at least 0, got -1"),
        ({"embed_dim": 0}, "embed_dim must be at least 1"),
        ({"init_scale": -1}, "init_scale must be 0 or more"),
        ({"init_scale": float("nan")}, "init_scale must be 0 or more"),
        ({"feature": "x"}, "Unknown feature 'x'"),
    ],
)
def test_impossible_pools_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        PromptPool(**options)


def test_the_summary_counts_what_is_trained():
    text = PromptPool().summary()

    assert "16 prompts x 6 layers x 5 tokens x 128 = 61,440 trainable parameters" in text
    assert "keys      not fitted" in text
