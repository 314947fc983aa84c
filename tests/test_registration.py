import os
import subprocess
import sys

import pytest


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a core alone shows nothing")
def test_the_users_number_of_threads_outlives_the_import_of_rl4co():
    """Two processes with a thread too many each took five times as long."""
    code = "import rl4co_prompt, rl4co.envs, torch; print(torch.get_num_threads())"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split()[-1] == "1"
