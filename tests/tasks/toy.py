"""A small .vrp file that the tests of the formats share."""

TEXT = """NAME : toy
COMMENT : four points
TYPE : CVRP
DIMENSION : 4
EDGE_WEIGHT_TYPE : EUC_2D
CAPACITY : 10
NODE_COORD_SECTION
1 0 0
2 3 4
3 6 8
4 0 5
DEMAND_SECTION
1 0
2 4
3 5
4 6
DEPOT_SECTION
1
-1
EOF
"""
TOY = ([[0, 0], [3, 4], [6, 8], [0, 5]], [4, 5, 6], 10, "nearest", None)


def text(*changes):
    """The toy file with parts of it replaced."""
    changed = TEXT
    for old, new in changes:
        assert old in changed
        changed = changed.replace(old, new)
    return changed


def facts(instance):
    """What decides the problem."""
    return (
        instance.coordinates.tolist(),
        instance.demand.tolist(),
        instance.capacity,
        instance.rounding,
        instance.max_routes,
    )
