import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("kind", ["pool", "taught", "omni"])
def test_two_processes_share_the_task_and_the_weights(kind, tmp_path):
    """Gloo on the CPU: same task and weights on both ranks, different instances."""
    script = os.path.join(os.path.dirname(__file__), "ddp_script.py")
    environment = {k: v for k, v in os.environ.items() if k not in ("LOCAL_RANK", "NODE_RANK")}
    result = subprocess.run(
        [sys.executable, script, str(tmp_path), kind],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    ranks = [
        [line.split() for line in (tmp_path / f"rank{r}.txt").read_text().splitlines()]
        for r in (0, 1)
    ]
    assert len(ranks[0]) == len(ranks[1]) == 4
    for one, two in zip(*ranks, strict=True):
        assert one[0] == two[0]  # task
        assert one[1] == two[1]  # sum of the weights
        assert one[2] != two[2]  # instances
    assert len({row[0] for row in ranks[0]}) == 2
    assert len({row[1] for row in ranks[0]}) == 4
