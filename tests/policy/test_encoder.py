import pytest
import torch

from rl4co.models.zoo.am import AttentionModelPolicy
from torch import nn

from rl4co_prompt import PromptPool, TaskGenerator
from rl4co_prompt.policy.encoder import PROMPT, PromptedEncoder


@pytest.fixture
def td(env):
    return env.reset(TaskGenerator("10-uniform")(5, rng=0))


def nearest(encoder, td):
    with encoder.choosing(td) as choices:
        return choices[:, 0]


def test_layer_l_sees_l_times_d_more_tokens_and_the_decoder_the_nodes(backbone, pool, td):
    lengths = []
    for layer in backbone.encoder.net.layers:
        layer.register_forward_hook(lambda m, i, out: lengths.append(out.shape[1]))
    hidden, embedded = PromptedEncoder(backbone.encoder, pool)(td)

    assert lengths[-2:] == [11 + 2, 11 + 4]
    assert hidden.shape == embedded.shape == (5, 11, 16)


@torch.no_grad()
def test_tokens_take_part_in_attention_and_norms(backbone, pool, td):
    """Against the layer's formulas, written out for the first layer."""
    encoder = PromptedEncoder(backbone.encoder, pool)
    index = nearest(encoder, td)
    h = torch.cat((backbone.encoder.init_embedding(td), pool(index)[:, 0]), 1)
    attend, norm, feed_forward, final_norm = backbone.encoder.net.layers[0]

    def instance_norm(x, module):
        scale = (x.var(1, keepdim=True, correction=0) + 1e-5).sqrt()
        x = (x - x.mean(1, keepdim=True)) / scale
        return x * module.normalizer.weight + module.normalizer.bias

    h = instance_norm(h + attend.module(h), norm)
    h = instance_norm(h + feed_forward.module(h), final_norm)
    after_one = torch.cat((h, pool(index)[:, 1]), 1)
    expected = backbone.encoder.net.layers[1](after_one)[:, :11]

    assert torch.allclose(encoder(td)[0], expected, atol=1e-5)


@torch.no_grad()
def test_rows_of_a_batch_may_use_different_prompts(backbone, pool, td):
    encoder = PromptedEncoder(backbone.encoder, pool)
    index = torch.tensor([0, 1, 2, 3, 0])
    together = encoder(td.copy().set(PROMPT, index))[0]
    for row in range(5):
        alone = encoder(td[row : row + 1].copy().set(PROMPT, index[row : row + 1]))[0]
        assert torch.allclose(together[row], alone[0], atol=1e-5)


def test_every_instance_takes_its_own_nearest_key(backbone, pool, td):
    encoder = PromptedEncoder(backbone.encoder, pool)
    features = encoder.features(td)[0]
    expected = (features[:, None] - pool.keys).norm(dim=-1).argmin(-1)

    assert nearest(encoder, td).tolist() == expected.tolist()
    assert torch.equal(encoder(td)[0], encoder(td.copy().set(PROMPT, expected))[0])


def test_the_gradient_of_an_instance_reaches_its_own_prompt_only(backbone, pool, td):
    encoder = PromptedEncoder(backbone.encoder, pool)
    chosen = torch.tensor([1, 1, 3, 3, 1])
    encoder(td.copy().set(PROMPT, chosen))[0].square().mean().backward()
    moved = pool.prompts.grad.abs().sum((1, 2, 3)) > 0

    assert moved.tolist() == [False, True, False, True]


@torch.no_grad()
def test_without_tokens_the_encoder_is_bit_equal(backbone, keys, td):
    pool = PromptPool.for_backbone(backbone, 4, num_tokens=0).set_keys(keys)

    assert torch.equal(PromptedEncoder(backbone.encoder, pool)(td)[0], backbone.encoder(td)[0])


def test_a_closed_gate_is_bit_equal_and_opens_by_its_gradient(backbone, keys, td):
    torch.manual_seed(0)
    pool = PromptPool.for_backbone(backbone, 4, 2, init_scale=1.0, gated=True).set_keys(keys)
    encoder = PromptedEncoder(backbone.encoder, pool)
    hidden = encoder(td)[0]
    hidden.square().mean().backward()

    assert torch.equal(hidden, backbone.encoder(td)[0])
    assert (pool.gate.grad != 0).any()
    assert (pool.prompts.grad == 0).all()
    with torch.no_grad():
        pool.gate.fill_(1.0)
    ungated = PromptPool.for_backbone(backbone, 4, 2).set_keys(keys)
    ungated.prompts = pool.prompts
    assert torch.allclose(
        encoder(td)[0], PromptedEncoder(backbone.encoder, ungated)(td)[0], atol=1e-6
    )


@pytest.mark.parametrize("gated", [False, True])
def test_one_plain_pass_serves_the_choice_and_all_prompts(backbone, keys, td, gated):
    pool = PromptPool.for_backbone(backbone, 4, 2, gated=gated).set_keys(keys)
    encoder, passes = PromptedEncoder(backbone.encoder, pool), []
    backbone.encoder.net.layers[0][0].register_forward_hook(lambda *args: passes.append(1))
    backbone.encoder.net.layers[0][0].module.register_forward_hook(lambda *args: passes.append(1))
    with encoder.choosing(td, 3) as choices:
        shared = [encoder(td.copy().set(PROMPT, prompt))[0] for prompt in choices.unbind(1)]

    assert len(passes) == 1 + 2 * 3  # the plain pass calls the inner module alone
    for prompt, hidden in zip(choices.unbind(1), shared, strict=True):
        assert torch.equal(encoder(td.copy().set(PROMPT, prompt))[0], hidden)


def test_a_pool_of_another_shape_is_refused(backbone):
    with pytest.raises(ValueError, match="6 layers of width 128, the backbone has 2 of width 16"):
        PromptedEncoder(backbone.encoder, PromptPool())


def test_an_encoder_of_another_kind_is_refused(pool):
    with pytest.raises(TypeError, match="Linear can't be prompted"):
        PromptedEncoder(nn.Linear(2, 2), pool)


def test_rl4cos_own_policy_can_be_prompted(td):
    policy = AttentionModelPolicy(
        env_name="cvrp", embed_dim=16, num_heads=2, num_encoder_layers=2, feedforward_hidden=16
    ).eval()
    pool = PromptPool.for_backbone(policy, 1, 2)

    assert PromptedEncoder(policy.encoder, pool)(td)[0].shape == (5, 11, 16)
