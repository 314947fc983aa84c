"""How good it is: suites, reference solvers, tables."""
