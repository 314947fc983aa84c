"""What can go wrong in a rollout, in one sentence each."""

NO_LIMIT = 1_000_000  # steps, RL4CO's default


def check_tours(stuck: bool, not_a_number: bool) -> None:
    """Raise for tours that ended badly."""
    if not_a_number:
        raise ValueError(
            "The policy gave NaN instead of probabilities: the weights or the instances hold NaN "
            "or infinite numbers, or the environment masked every node."
        )
    if stuck:
        raise ValueError(
            "A tour has customers left and none of them is allowed; a demand above the capacity "
            "does that."
        )


def never_done(env: object, steps: int) -> RuntimeError:
    """For environments that go on and on."""
    return RuntimeError(
        f"{type(env).__name__} was not done after {steps} steps; its step must set done, or raise "
        "max_steps if tours are that long."
    )
