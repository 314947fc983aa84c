"""What is solved: maps, tasks, instances and the environment."""
