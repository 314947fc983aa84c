"""Nothing assumes the CPU, shown without a device.

Fake tensors of another device fail on any mix of devices and on anything that waits for a value.
That device is CUDA where torch is built with it, and ``meta`` elsewhere.
"""

import contextlib
import copy

import pytest
import torch

from torch._subclasses.fake_tensor import FakeTensorMode

from rl4co_prompt.policy.encoder import PROMPT
from rl4co_prompt.rollout import compiled, generic, lean, noise
from rl4co_prompt.rollout.decoding import Decoding
from rl4co_prompt.rollout.pointer import pointer_model
from rl4co_prompt.rollout.replay import LeanReplay, Tours, attach
from tests.rollout.policies import instances, make_env, make_policy

SAMPLING = Decoding(sampling=True, clip=10.0)
DEVICE = "cuda" if torch.version.cuda else "meta"


def elsewhere(mode, thing):
    """A fake copy on another device of a module or a TensorDict."""

    def move(tensor):
        fake = mode.from_tensor(tensor.detach())
        with mode:
            return fake.to(DEVICE)

    if not isinstance(thing, torch.nn.Module):
        return thing.apply(move, device=torch.device(DEVICE))
    thing = copy.deepcopy(thing)
    for module in thing.modules():
        for name, tensor in module._parameters.items():
            if tensor is not None:
                moved = torch.nn.Parameter(move(tensor), tensor.requires_grad)
                module._parameters[name] = moved
        for name, tensor in module._buffers.items():
            module._buffers[name] = None if tensor is None else move(tensor)
    return thing


@pytest.fixture(autouse=True)
def no_autocast_on_meta(monkeypatch, request):
    if DEVICE == "meta" and "on_the_device" in request.node.name:
        monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())


@pytest.fixture
def td(env):
    return env.reset(env.generator(3, rng=1))


def prompted_model(fake_policy, td):
    features, _, _ = fake_policy.encoder.features(td)
    chosen = fake_policy.pool.select(features, 2)
    assert chosen.device.type == DEVICE
    hidden, _ = fake_policy.encoder(td.set(PROMPT, chosen[:, 0]))
    return pointer_model(fake_policy.decoder, hidden, td)


def decode_and_replay(model, td):
    """Four sampled steps of ten starts, their length, and the gradient of their likelihood."""
    assert "for float32 on the CPU" in compiled.why_not_compiled(model, 1e9)
    batch, starts = (torch.arange(number, device=DEVICE) for number in (3, 9))
    states = noise.start_states(1, batch, starts)
    walk, heads = lean.Walk(model, 9), lean.Heads(model)
    actions, log_probs = [], []
    for t in range(4):
        all_log_probs = heads.log_probs(lean.States.of(walk), SAMPLING)
        log_prob, action = lean.choose(all_log_probs, noise.uniform(states, t, t + 1)[..., 0])
        walk.move(action)
        actions.append(action)
        log_probs.append(log_prob)
    assert walk.finished().device.type == DEVICE
    tours = Tours(torch.stack(actions, -1), torch.stack(log_probs, -1).detach(), chooses=True)
    lengths = lean.tour_lengths(td["locs"], tours.actions, model.has_depot)
    assert lengths.device.type == DEVICE
    replay = LeanReplay(model, SAMPLING, 1e5, kernel=False)
    attach(replay, tours, replay.inputs(), starts_per_update=4).sum().backward()


def test_prompted_rollouts_and_their_gradients_stay_on_the_device(policy, td):
    mode = FakeTensorMode()
    policy, td = elsewhere(mode, policy), elsewhere(mode, td)
    with mode:
        decode_and_replay(prompted_model(policy, td), td)
        assert policy.pool.prompts.grad.device.type == DEVICE


def test_tsp_rollouts_and_their_gradients_stay_on_the_device():
    mode, env = FakeTensorMode(), make_env("tsp")
    policy, td = elsewhere(mode, make_policy("tsp")), elsewhere(mode, instances(env))
    with mode:
        decode_and_replay(pointer_model(policy.decoder, policy.encoder(td)[0], td), td)
        assert policy.decoder.pointer.project_out.weight.grad.device.type == DEVICE


def test_a_generic_step_stays_on_the_device():
    mode, env = FakeTensorMode(), make_env("cvrp")
    policy, td = elsewhere(mode, make_policy("cvrp")), elsewhere(mode, instances(env))
    with mode:
        hidden, _ = policy.encoder(td)
        cache = generic.Cache(policy.decoder, policy.decoder._precompute_cache(hidden), 3)
        walk = generic.Walk(env, td, 3, torch.arange(1, 4, device=DEVICE).expand(3, 3))
        log_probs = generic.log_probs_of(*cache.logits(walk), SAMPLING)
        _, action = generic.choose(log_probs, torch.rand(9, device=DEVICE))
        walk.move(action.view(3, 3))
        assert walk.td["current_node"].device.type == DEVICE


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_the_decode_step_compiles_without_a_break(backend, policy, td):
    with torch.no_grad():
        hidden, _ = policy.encoder(td.set(PROMPT, torch.zeros(3, dtype=torch.long)))
        model = pointer_model(policy.decoder, hidden, td)
        walk, heads = lean.Walk(model, 10), lean.Heads(model)
        walk.move(torch.arange(1, 11).expand(3, 10))
        state = lean.States.of(walk)

        def step(current, used, allowed):
            log_probs = heads.log_probs(lean.States(current, None, used, allowed), SAMPLING)
            return log_probs, lean.choose(log_probs, None)[1]

        arguments = (state.current, state.used, state.allowed)
        expected = step(*arguments)
        torch._dynamo.reset()
        found = torch.compile(step, fullgraph=True, backend=backend)(*arguments)

    assert torch.equal(found[1], expected[1])
    assert torch.allclose(found[0], expected[0], atol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("engine", ["lean", "generic"])
def test_cuda_gives_the_tours_and_gradients_of_the_cpu(engine, policy, td, env):
    found = []
    for device in ("cpu", "cuda"):
        policy.to(device).zero_grad()
        out = policy(td.to(device), env.to(device), engine=engine, decode_type="multistart_greedy")
        likelihood = out["log_likelihood"]
        (out["reward"] * likelihood).mean().backward()
        found.append((out["actions"].cpu(), policy.pool.prompts.grad.cpu()))

    assert (found[0][0] == found[1][0]).float().mean() > 0.98
    assert torch.allclose(found[0][1], found[1][1], rtol=1e-2, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_half_precision_training_decodes_in_single(policy, td, env):
    policy, td = policy.to("cuda"), td.to("cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        out = policy(td, env.to("cuda"), decode_type="multistart_sampling")
    assert out["log_likelihood"].dtype == torch.float32
    out["log_likelihood"].sum().backward()
    assert torch.isfinite(policy.pool.prompts.grad).all()


def test_mixed_precision_decodes_in_single(policy, td, env):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = policy(td, env, decode_type="multistart_sampling")
        assert out["log_likelihood"].dtype == torch.float32
        out["log_likelihood"].sum().backward()
    assert torch.isfinite(policy.pool.prompts.grad).all()
