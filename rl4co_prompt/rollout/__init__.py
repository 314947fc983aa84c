"""HOW tours are made: rollouts and their gradients, fast and in bounded memory."""
