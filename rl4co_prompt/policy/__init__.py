"""The method: a frozen attention policy that a pool of prompts adapts."""
