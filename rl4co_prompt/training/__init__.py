"""How it is learned: keys, prompt training and its callbacks."""
