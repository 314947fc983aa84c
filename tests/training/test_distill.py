import pytest
import torch

from rl4co.envs import get_env
from rl4co.models.zoo.am import AttentionModelPolicy

from rl4co_prompt import MultiTaskCVRPEnv, POMOPolicy, PromptedPolicy, TaskGenerator, save_backbone
from rl4co_prompt.rollout.pointer import pointer_model
from rl4co_prompt.training import distill
from rl4co_prompt.training.distill import Distillation, Teacher, random_starts, some_choices
from tests.training.runs import make_model, make_policy, make_trainer

TINY = {"num_encoder_layers": 2, "num_heads": 2, "feedforward_hidden": 32}


def tiny(seed, embed_dim=16):
    torch.manual_seed(seed)
    policy = POMOPolicy(embed_dim=embed_dim, **TINY)
    with torch.no_grad():  # clear preferences
        policy.decoder.context_embedding.project_context.weight.mul_(5)
    return policy


@pytest.fixture
def instances():
    env = MultiTaskCVRPEnv("10-uniform", check_solution=False)
    return env, env.reset(TaskGenerator("10-uniform")(4, rng=0))


def test_the_loss_is_the_mean_divergence_along_the_tours(instances, monkeypatch):
    """Against RL4CO's own environment and decoder, step by step."""
    env, td = instances
    teacher, student = tiny(0), tiny(1, embed_dim=32)
    drawn = {}

    def recorded(model, starts, decoding, made=distill.sampled_tours):
        tours = made(model, starts, decoding)
        drawn[len(drawn)] = tours
        return tours

    monkeypatch.setattr(distill, "sampled_tours", recorded)
    taught = Distillation([Teacher(teacher, (10, 10))], num_tours=2, step_share=1.0)
    torch.manual_seed(0)
    loss = taught.loss(student, taught.teachers[0], td, env)["loss"]
    total, count = 0.0, 0
    for tours in drawn.values():
        divergence, choices = stock_divergence(env, td, teacher, student, tours[:, 0])
        total, count = total + divergence, count + choices

    assert loss.item() == pytest.approx(total / count, rel=1e-4)
    assert loss.requires_grad


@torch.no_grad()
def stock_divergence(env, td, teacher, student, tour):
    caches = [p.decoder._precompute_cache(p.encoder(td)[0]) for p in (teacher, student)]
    state, total, count = td.clone(), 0.0, 0
    for step, action in enumerate(tour.unbind(-1)):
        if step > 0:
            log_probs = []
            for policy, cache in zip((teacher, student), caches, strict=True):
                logits, mask = policy.decoder(state, cache, num_starts=0)
                logits = 10 * torch.tanh(logits)
                log_probs.append(logits.masked_fill(~mask, -torch.inf).log_softmax(-1))
            p, q = log_probs
            each = torch.where(mask, p.exp() * (p - q), 0).sum(-1)
            asked = (tour[:, step:] != 0).any(-1) & (mask.sum(-1) > 1)
            total, count = total + float(each[asked].sum()), count + int(asked.sum())
        state.set("action", action)
        state = env.step(state)["next"]
    return total, count


def test_a_policy_has_nothing_to_learn_from_itself(instances):
    env, td = instances
    policy = tiny(0)
    twin = tiny(0)
    taught = Distillation([Teacher(twin, (10, 10))])
    loss = taught.loss(policy, taught.teachers[0], td, env)["loss"]
    loss.backward()

    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert max(p.grad.abs().max() for p in policy.parameters() if p.grad is not None) < 1e-5


@pytest.mark.parametrize("feature_weight", [0.0, 1.0])
def test_a_student_comes_nearer_to_its_teacher(instances, feature_weight):
    env, td = instances
    student = tiny(1, embed_dim=32)
    taught = Distillation([Teacher(tiny(0), (10, 10))], feature_weight=feature_weight)
    taught.prepare(student)
    optimizer = torch.optim.Adam([*student.parameters(), *taught.parameters()], 3e-3)
    torch.manual_seed(0)
    losses = []
    for _ in range(60):
        out = taught.loss(student, taught.teachers[0], td, env, progress=0.0)
        optimizer.zero_grad()
        out["loss"].backward()
        optimizer.step()
        losses.append(out)

    assert losses[-1]["kl"] < 0.5 * losses[0]["kl"]
    assert ("features" in losses[0]) == (feature_weight > 0)
    if feature_weight:
        assert losses[-1]["features"] < 0.8 * losses[0]["features"]


def test_features_count_less_and_less(instances):
    env, td = instances
    student = tiny(1)
    taught = Distillation([Teacher(tiny(0), (10, 10))], feature_weight=2.0, feature_until=0.5)
    taught.prepare(student)
    out = taught.loss(student, taught.teachers[0], td, env, progress=0.25)

    assert (out["loss"] - out["kl"]).item() == pytest.approx(out["features"].item(), rel=1e-4)
    assert "features" not in taught.loss(student, taught.teachers[0], td, env, progress=0.5)


def test_prompts_learn_from_a_teacher_and_the_backbone_stays(keys):
    policy = make_policy(keys)
    before = {k: v.clone() for k, v in policy.state_dict().items()}
    taught = Distillation([Teacher(tiny(0), (8, 12))])
    make_trainer(1).fit(make_model(policy, distillation=taught, lr_milestones=()))
    changed = {k for k, v in policy.state_dict().items() if not torch.equal(v, before[k])}

    assert changed == {"encoder.pool.prompts"}


def test_sizes_without_a_teacher_are_learned_by_rewards(keys, monkeypatch):
    taught = Distillation([Teacher(tiny(0), (10, 10))])
    seen = []
    loss = taught.loss
    monkeypatch.setattr(taught, "loss", lambda *a: seen.append(a[2]["demand"].shape[1]) or loss(*a))
    model = make_model(make_policy(keys), distillation=taught, lr_milestones=())
    logged = []
    monkeypatch.setattr(model, "log_dict", lambda metrics, **options: logged.append(metrics))
    make_trainer(3).fit(model)

    assert seen == [10, 10]  # of 10, 12 and 14, two batches each
    assert ["train/kl" in metrics for metrics in logged] == [True] * 2 + [False] * 4
    assert ["train/reward" in metrics for metrics in logged] == [False] * 2 + [True] * 4


def test_no_teacher_is_among_the_saved_weights(keys):
    taught = Distillation([Teacher(tiny(0), (10, 10))])
    model = make_model(make_policy(keys), distillation=taught)

    assert not [key for key in model.state_dict() if key.startswith("distillation")]


def test_a_teacher_may_be_a_file(tmp_path):
    policy = tiny(0)
    teacher = Teacher(save_backbone(policy, tmp_path / "teacher.safetensors"), [5, 20])

    assert [n for n in (4, 5, 20, 21) if teacher.teaches(TaskGenerator(f"{n}-grid")(2))] == [5, 20]
    assert not any(p.requires_grad for p in teacher.policy.parameters())
    assert torch.equal(
        teacher.policy.encoder.init_embedding.init_embed.weight,
        policy.encoder.init_embedding.init_embed.weight,
    )


def test_a_teacher_may_be_for_some_capacities():
    teacher = Teacher(tiny(0), (5, 20), capacities=(30, 40))
    names = ["10-grid", "10-grid@30", "10-grid@40", "10-grid@41", "30-grid@30"]

    assert [teacher.teaches(TaskGenerator(name)(2)) for name in names] == [
        False, True, True, False, False,
    ]  # fmt: skip


def test_starts_differ_while_there_are_enough(instances):
    _, td = instances
    policy = tiny(0)
    model = pointer_model(policy.decoder, policy.encoder(td)[0], td)
    for count in (1, 7, 10):
        starts = random_starts(model, count)
        assert starts.shape == (4, count)
        assert all(len(set(row)) == count for row in starts.tolist())
        assert starts.min() >= 1
        assert starts.max() <= 10
    assert random_starts(model, 25).shape == (4, 25)


def test_a_share_of_the_steps_is_looked_at(instances):
    _, td = instances
    policy = tiny(0)
    model = pointer_model(policy.decoder, policy.encoder(td)[0], td)
    tours = distill.sampled_tours(model, random_starts(model, 3), distill._decoding(policy))
    steps = tours.shape[-1] - 1
    states, weights = some_choices(model, tours, 0.5)

    assert states.allowed.shape[1] == weights.shape[1] == 3 * round(steps / 2)


def test_tsp_is_distilled_too():
    env = get_env("tsp", generator_params={"num_loc": 9})
    td = env.reset(batch_size=[3])
    teacher, student = (
        AttentionModelPolicy(env_name="tsp", embed_dim=16, num_encoder_layers=1, num_heads=2)
        for _ in range(2)
    )
    taught = Distillation([Teacher(teacher, (1, 99))], num_tours=2)
    loss = taught.loss(student, taught.teachers[0], td, env)["loss"]

    assert 0 < loss.item() < 10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Distillation([]), "at least one teacher"),
        (lambda: Distillation([Teacher(tiny(0), (1, 9))], num_tours=0), "num_tours must be"),
        (lambda: Teacher(tiny(0), (9, 1)), "sizes must be the least and the largest"),
        (
            lambda: Distillation([Teacher(tiny(0), (1, 9))], feature_weight=1.0).prepare(
                POMOPolicy(embed_dim=16, num_encoder_layers=3, num_heads=2)
            ),
            "teacher of 3 layers",
        ),
    ],
)
def test_senseless_lessons_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_features_are_for_whole_policies(keys):
    taught = Distillation([Teacher(tiny(0), (1, 9))], feature_weight=1.0)
    with pytest.raises(ValueError, match="prompts learn from tours"):
        taught.prepare(make_policy(keys))


def test_other_problems_are_refused():
    env = get_env("op", generator_params={"num_loc": 9})
    policy = AttentionModelPolicy(env_name="op", embed_dim=16, num_encoder_layers=1, num_heads=2)
    taught = Distillation([Teacher(policy, (1, 99))])
    with pytest.raises(ValueError, match="CVRP and TSP alone"):
        taught.loss(policy, taught.teachers[0], env.reset(batch_size=[2]), env)


def test_prompted_students_keep_their_prompts(keys, instances):
    env, td = instances
    policy: PromptedPolicy = make_policy(keys)
    taught = Distillation([Teacher(tiny(0), (1, 99))])
    out = taught.loss(policy, taught.teachers[0], td, env)

    assert out["prompt"].tolist() == policy.explain(td).prompts.tolist()
