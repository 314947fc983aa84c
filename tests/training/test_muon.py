import copy

import pytest
import torch

from torch import nn

from rl4co_prompt.training.muon import Muon, orthogonal


@pytest.mark.parametrize("shape", [(3, 32, 32), (2, 96, 32), (2, 32, 64)])
def test_orthogonal_keeps_the_directions_and_evens_out_their_lengths(shape):
    torch.manual_seed(0)
    x = torch.randn(shape)
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    x = u @ torch.diag_embed(s.clamp_min(0.05 * s.amax())) @ v
    found = u.mT @ orthogonal(x) @ v.mT
    lengths = found.diagonal(dim1=-2, dim2=-1)
    assert ((lengths > 0.6) & (lengths < 1.25)).all()
    assert (found - torch.diag_embed(lengths)).abs().max() < 1e-4


def test_a_zero_gradient_moves_no_matrix():
    weight = nn.Parameter(torch.ones(32, 32))
    weight.grad = torch.zeros(32, 32)
    Muon([weight], lr=0.1).step()
    assert weight.equal(torch.ones(32, 32))


def test_vectors_and_narrow_matrices_take_the_steps_of_adam():
    torch.manual_seed(0)
    ours = [nn.Parameter(torch.randn(20)), nn.Parameter(torch.randn(64, 3))]
    theirs = copy.deepcopy(ours)
    one, two = Muon(ours, lr=1e-2), torch.optim.Adam(theirs, lr=1e-2)
    for _ in range(5):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        one.step()
        two.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has no Muon before 2.9")
def test_matrices_take_the_steps_of_torchs_own():
    """Within the rounding of its 16-bit polynomial."""
    torch.manual_seed(0)
    ours = nn.Parameter(torch.randn(64, 32))
    theirs = copy.deepcopy(ours)
    begin = ours.detach().clone()
    one = Muon([ours], lr=0.1, weight_decay=0.5)
    two = torch.optim.Muon(
        [theirs], lr=0.1, weight_decay=0.5, adjust_lr_fn="match_rms_adamw", momentum=0.95
    )
    for _ in range(3):
        ours.grad = torch.randn_like(ours)
        theirs.grad = ours.grad.clone()
        one.step()
        two.step()
    assert (ours - theirs).norm() < 0.01 * (theirs - begin).norm()


def test_a_saved_optimizer_goes_on_as_if_never_stopped():
    torch.manual_seed(0)
    gradients = torch.randn(4, 32, 16), torch.randn(4, 16)

    def run(optimizer, weights, steps):
        for i in steps:
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.grad = gradient[i].clone()
            optimizer.step()

    whole = [nn.Parameter(torch.ones(32, 16)), nn.Parameter(torch.ones(16))]
    parts = copy.deepcopy(whole)
    run(Muon(whole, lr=1e-2), whole, range(4))
    first = Muon(parts, lr=1e-2)
    run(first, parts, range(2))
    second = Muon(parts, lr=1e-2)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    run(second, parts, range(2, 4))
    for one, two in zip(whole, parts, strict=True):
        assert one.equal(two)


@pytest.mark.parametrize("options", [{"lr": -1.0}, {"momentum": 1.0}, {"weight_decay": -1.0}])
def test_senseless_options_are_refused(options):
    with pytest.raises(ValueError, match="must"):
        Muon([nn.Parameter(torch.ones(2))], **options)
