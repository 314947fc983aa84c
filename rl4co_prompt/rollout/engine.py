"""FastDecoding: policies that roll out on the fastest path that their environment allows."""

import inspect

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from rl4co.envs import RL4COEnvBase, get_env
from rl4co.models.common.constructive.autoregressive import AutoregressivePolicy
from rl4co.utils.decoding import BeamSearch, DecodingStrategy
from tensordict import TensorDict
from torch import Tensor, nn

from rl4co_prompt.rollout import noise
from rl4co_prompt.rollout.budget import budget_bytes, chunk_sizes, encoder_bytes, rollout_bytes
from rl4co_prompt.rollout.decoding import Request, read_request
from rl4co_prompt.rollout.faults import NO_LIMIT
from rl4co_prompt.rollout.generic import why_not_generic
from rl4co_prompt.rollout.layout import join_parts, start_major
from rl4co_prompt.rollout.pointer import at_start, why_not_lean
from rl4co_prompt.rollout.replay import attach
from rl4co_prompt.rollout.rollout import Job, Rollouts, generic_tours, lean_tours

ENGINES = ("auto", "lean", "generic", "stock")
_STRATEGIES = (
    "greedy",
    "sampling",
    "multistart_greedy",
    "multistart_sampling",
    "beam_search",
    "evaluate",
)
_OPTIONS = {"decode_type"}.union(
    *(inspect.signature(cls.__init__).parameters for cls in (DecodingStrategy, BeamSearch))
) - {"self", "kwargs"}

_PASS = frozenset(inspect.signature(AutoregressivePolicy.forward).parameters)


@dataclass(frozen=True)
class Call:
    """The arguments of one forward pass, and what was made of them.

    Args:
        options: RL4CO's, of the pass and of its decoding.
        engine: that runs it, one of lean, generic and stock.
        request: what to roll out; None for RL4CO's own loop.
        seed: of the sampled choices.
        offset: number of instances of the same pass that come before.
        num_prompts: that a prompted policy tries on each instance.
    """

    options: dict[str, Any]
    engine: str
    request: Request | None = None
    seed: int = 0
    offset: int = 0
    num_prompts: int = 1


class FastDecoding(AutoregressivePolicy):
    """Mixin before one of RL4CO's attention policies.

    ``engine`` is ``lean`` for RL4CO's CVRP and TSP, ``generic`` for any other environment,
    ``stock`` for RL4CO's own loop; ``auto`` takes the first of them that can do what is asked.
    All give the same tours. Gradients of log-likelihoods come from a replay.
    """

    engine: str = "auto"
    memory_budget: float | None = None
    starts_per_update: int | None = None

    def set_rollouts(
        self,
        engine: str = "auto",
        memory_budget: float | None = None,
        starts_per_update: int | None = None,
    ) -> None:
        """Choose how tours and gradients are made.

        Args:
            engine: ``auto``, ``lean``, ``generic`` or ``stock``.
            memory_budget: megabytes that rollouts may take at once; by default 1024 on the CPU
                and half of the free memory on a GPU.
            starts_per_update: tours of each instance that give the gradient, drawn from those
                rolled out; all by default.
        """
        check_engine(engine)
        for name, value in (
            ("memory_budget", memory_budget),
            ("starts_per_update", starts_per_update),
        ):
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be positive, got {value}.")
        self.engine, self.memory_budget = engine, memory_budget
        self.starts_per_update = starts_per_update

    def forward(
        self,
        td: TensorDict,
        env: str | RL4COEnvBase | None = None,
        phase: str = "train",
        calc_reward: bool = True,
        return_actions: bool = True,
        return_entropy: bool = False,
        return_hidden: bool = False,
        return_init_embeds: bool = False,
        return_sum_log_likelihood: bool = True,
        actions: Tensor | None = None,
        max_steps: int = NO_LIMIT,
        engine: str | None = None,
        **decoding_kwargs: Any,
    ) -> dict:
        """Solve instances; arguments and result as in RL4CO's policies.

        Args:
            engine: of this pass, instead of the policy's.
        """
        options = dict(
            phase=phase,
            calc_reward=calc_reward,
            return_actions=return_actions,
            return_entropy=return_entropy,
            return_hidden=return_hidden,
            return_init_embeds=return_init_embeds,
            return_sum_log_likelihood=return_sum_log_likelihood,
            actions=actions,
            max_steps=max_steps,
            **decoding_kwargs,
        )
        env = environment_for(self, env, td)
        return join_parts(list(self.solve_in_parts(td, env, engine, **options)), len(td))

    def solve_in_parts(
        self,
        td: TensorDict,
        env: str | RL4COEnvBase | None = None,
        engine: str | None = None,
        **options: Any,
    ) -> Iterator[dict]:
        """:meth:`forward`, some instances at a time as memory allows, in order.

        Whoever is interrupted keeps the parts that are done.
        """
        env = environment_for(self, env, td)
        call = self.plan(env, engine, **options)
        if call.engine == "lean" and not at_start(env, td):
            if (self.engine if engine is None else engine) == "lean":
                raise ValueError(
                    "engine='lean' can't run this: the instances are not as their reset left them."
                )
            call = self.plan(env, "generic", **options)
        size = self._instances_at_once(td, env, call)
        for low in range(0, len(td), size):
            part = td[low : low + size] if size < len(td) else td
            yield self._solve(part, env, replace(call, offset=low))

    def plan(self, env: RL4COEnvBase, engine: str | None = None, **options: Any) -> Call:
        """What a forward pass with these options would do."""
        name = self.engine if engine is None else engine
        check_engine(name)
        decoding = {k: v for k, v in options.items() if k not in _PASS}
        _check_decoding(decoding)
        reasons: dict[str, str | None] = {"stock": None}
        request = _read(self, options, decoding)
        if isinstance(request, str):
            reasons["lean"] = reasons["generic"] = f"{request} needs RL4CO's own loop"
        else:
            reasons["generic"] = why_not_generic(self.decoder)
            reasons["lean"] = why_not_lean(env, self.decoder)
            if request.decoding.top_p > 0 or request.decoding.top_k > 0:
                reasons["lean"] = "top_p and top_k are for the generic path"
        if name == "auto":
            name = next(x for x in ("lean", "generic", "stock") if reasons[x] is None)
        if reasons[name] is not None:
            raise ValueError(f"engine={name!r} can't run this: {reasons[name]}.")
        if name == "stock" or isinstance(request, str):
            return Call(options, "stock")
        seed = noise.draw_seed() if request.decoding.sampling else 0
        return Call(options, name, request, seed)

    def _solve(self, td: TensorDict, env: RL4COEnvBase, call: Call) -> dict:
        """One part."""
        if call.request is None:
            return super().forward(td.copy(), env, **call.options)  # it writes into td
        hidden, embedded = self.encoder(td)
        if hidden.dtype in (torch.float16, torch.bfloat16):
            hidden = hidden.float()
        job = Job(self.decoder, hidden, td, env, call.request, call.seed, call.offset)
        with torch.autocast(hidden.device.type, enabled=False):
            tours = (lean_tours if call.engine == "lean" else generic_tours)(
                job,
                budget_bytes(self.memory_budget, hidden.device),
                call.options.get("calc_reward", True),
                call.options.get("max_steps", NO_LIMIT),
            )
            out = _output(tours, call.options, self.starts_per_update)
        return out | {"init_embeds": embedded} if call.options.get("return_init_embeds") else out

    def _instances_at_once(self, td: TensorDict, env: RL4COEnvBase, call: Call) -> int:
        if call.request is None or _has_graph(self) or _joint_statistics(self.encoder):
            return max(1, len(td))
        per_instance, per_start = rollout_bytes(self.decoder, td, call.engine)
        per_instance += encoder_bytes(self.decoder, td)
        budget = budget_bytes(self.memory_budget, td["action_mask"].device)
        count = call.request.count(td, env)
        return chunk_sizes(len(td), count, per_instance, per_start, budget)[0]


def check_engine(name: str) -> None:
    if name not in ENGINES:
        raise ValueError(f"Unknown engine {name!r}; use one of {', '.join(ENGINES)}.")


def environment_for(policy: Any, env: str | RL4COEnvBase | None, td: TensorDict) -> RL4COEnvBase:
    """The given environment, or the named or the policy's own with starts for these instances."""
    if not (env is None or isinstance(env, str)):
        return env
    made = get_env(policy.env_name if env is None else env)
    # RL4CO starts rollouts at the first generator.num_loc nodes, 20 unless told otherwise.
    if type(made).select_start_nodes is RL4COEnvBase.select_start_nodes:
        made.generator.num_loc = made.get_num_starts(td)
    return made


def _check_decoding(options: dict[str, Any]) -> None:
    """RL4CO swallows misspelt options and samples where it does not know the decode type."""
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        known = ", ".join(sorted(_OPTIONS))
        raise TypeError(f"Unknown option {', '.join(unknown)}; RL4CO decodes with {known}.")
    decode_type = options.get("decode_type")
    if decode_type is not None and decode_type not in _STRATEGIES:
        raise ValueError(
            f"Unknown decode_type {decode_type!r}; use one of {', '.join(_STRATEGIES)}."
        )


def _read(policy: Any, options: dict[str, Any], decoding: dict[str, Any]) -> Request | str:
    if options.get("actions") is not None:
        return "evaluating given actions"
    for name in ("return_entropy", "return_hidden"):
        if options.get(name):
            return name
    return read_request(policy, options.get("phase", "train"), decoding)


def _joint_statistics(encoder: nn.Module) -> bool:
    """Whether instances are normalised together, so that they can't be encoded in parts."""
    norms = [module for module in encoder.modules() if isinstance(module, nn.BatchNorm1d)]
    return any(norm.training or not norm.track_running_stats for norm in norms)


def _has_graph(policy: nn.Module) -> bool:
    return torch.is_grad_enabled() and any(p.requires_grad for p in policy.parameters())


def _output(tours: Rollouts, options: dict[str, Any], starts_per_update: int | None) -> dict:
    """RL4CO's dictionary."""
    log_probs, inputs = tours.record.log_probs, tours.replay.inputs()
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        log_probs = attach(tours.replay, tours.record, inputs, starts_per_update)
    if options.get("return_sum_log_likelihood", True):
        log_probs = log_probs.sum(-1)
    out = {"reward": start_major(tours.reward), "log_likelihood": start_major(log_probs)}
    if options.get("return_actions", True):
        out["actions"] = start_major(tours.record.actions).clone()  # the record stays as it is
    return out
