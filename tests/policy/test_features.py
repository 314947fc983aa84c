import pytest
import torch

from rl4co_prompt import TaskGenerator
from rl4co_prompt.policy.features import get_feature, instance_features


@pytest.fixture
def td(env):
    return env.reset(TaskGenerator("10-uniform")(3, rng=0))


def layers_by_hooks(encoder, td):
    """Attention outputs and residual sums of each layer, caught from a stock pass."""
    attention, total = [], []
    for layer in encoder.net.layers:
        layer[0].module.register_forward_hook(lambda m, i, out: attention.append(out))
        layer[0].register_forward_hook(lambda m, i, out: total.append(out))
    hidden, embedded = encoder(td)
    return attention, total, hidden, embedded


@torch.no_grad()
def test_the_code_variant_is_mean_and_deviation_of_the_attention_with_unit_norm(backbone, td):
    attention, _, _, _ = layers_by_hooks(backbone.encoder, td)
    expected = torch.cat([a.mean(1) for a in attention] + [a.std(1) for a in attention], -1)
    found, _, _ = instance_features(backbone.encoder, td, get_feature("code"))

    assert found.shape == (3, 2 * 2 * 16)
    assert torch.allclose(found, expected / expected.norm(dim=-1, keepdim=True), atol=1e-6)


@torch.no_grad()
def test_the_paper_variant_is_the_mean_of_the_residual_sum(backbone, td):
    _, total, _, _ = layers_by_hooks(backbone.encoder, td)
    found, _, _ = instance_features(backbone.encoder, td, get_feature("paper"))

    assert found.shape == (3, 2 * 16)
    assert torch.allclose(found, torch.cat([t.mean(1) for t in total], -1), atol=1e-6)


@torch.no_grad()
def test_the_plain_pass_is_bit_equal_to_the_encoder(backbone, td):
    stock, stock_embedded = backbone.encoder(td)
    _, hidden, embedded = instance_features(backbone.encoder, td, get_feature("code"))

    assert torch.equal(hidden, stock)
    assert torch.equal(embedded, stock_embedded)


def test_features_are_in_full_precision_under_autocast(backbone, td):
    plain, _, _ = instance_features(backbone.encoder, td, get_feature("code"))
    with torch.autocast("cpu", torch.bfloat16):
        cast, _, _ = instance_features(backbone.encoder, td, get_feature("code"))

    assert cast.dtype == torch.float32
    assert torch.equal(plain, cast)


@pytest.mark.parametrize(("name", "width"), [("code", 1536), ("paper", 768)])
def test_the_papers_model_has_features_of_the_known_length(name, width):
    assert get_feature(name).dim(num_layers=6, embed_dim=128) == width


def test_an_unknown_feature_says_what_is_known():
    with pytest.raises(ValueError, match="Unknown feature 'mean'; use one of code, paper"):
        get_feature("mean")
