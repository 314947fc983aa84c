"""``python -m rl4co_prompt.cli``"""

from rl4co_prompt.cli import main

main()
