"""How the policy is used: instances in, solutions out."""
