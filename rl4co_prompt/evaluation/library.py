"""A library's solver in a process of its own: the problem comes on stdin, routes go to stdout.

HGS counts its limit in CPU time of the whole process, so threads would eat each other's; and
neither library's call can be interrupted. This file is run by its path: as a module it would first
import the package, which takes longer than a short solve.
"""

import io
import json
import os
import sys
import time

from importlib import import_module
from typing import Any


def solve_hgs(problem: dict[str, Any]) -> list[list[int]]:
    import hygese

    parameters = hygese.AlgorithmParameters(timeLimit=problem["seconds"], seed=problem["seed"])
    x, y = problem["coordinates"].T
    data = {
        "x_coordinates": x,  # SWAP* compares the sectors of routes
        "y_coordinates": y,
        "distance_matrix": problem["distances"],
        "demands": problem["demand"],
        "vehicle_capacity": problem["capacity"],
        "num_vehicles": problem["vehicles"],
        "depot": 0,
    }
    try:
        return hygese.Solver(parameters, verbose=False).solve_cvrp(data).routes
    except TypeError as error:
        if "null" not in str(error):
            raise
        return []


def solve_ortools(problem: dict[str, Any]) -> list[list[int]]:
    from ortools.constraint_solver import pywrapcp, routing_enums_pb2

    size, vehicles = len(problem["demand"]), problem["vehicles"]
    manager = pywrapcp.RoutingIndexManager(size, vehicles, 0)
    model = pywrapcp.RoutingModel(manager)
    model.SetArcCostEvaluatorOfAllVehicles(
        model.RegisterTransitMatrix(problem["distances"].tolist())
    )
    load = model.RegisterUnaryTransitVector(problem["demand"].tolist())
    model.AddDimension(load, 0, problem["capacity"], True, "load")
    search = pywrapcp.DefaultRoutingSearchParameters()
    search.first_solution_strategy = routing_enums_pb2.FirstSolutionStrategy.PATH_CHEAPEST_ARC
    search.local_search_metaheuristic = (
        routing_enums_pb2.LocalSearchMetaheuristic.GUIDED_LOCAL_SEARCH
    )
    search.time_limit.FromMicroseconds(max(1, round(problem["seconds"] * 1e6)))
    found = model.SolveWithParameters(search)
    if found is None:
        return []
    routes = []
    for vehicle in range(vehicles):
        route, index = [], found.Value(model.NextVar(model.Start(vehicle)))
        while not model.IsEnd(index):
            route.append(manager.IndexToNode(index))
            index = found.Value(model.NextVar(index))
        routes.append(route)
    return routes


def main() -> None:
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not mix with the routes
    settings = json.loads(sys.stdin.buffer.readline())
    sys.path[:] = settings.pop("path")

    import numpy as np

    with np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False) as arrays:
        problem = {**settings, **arrays}
    library, solve = {
        "hgs": ("hygese", solve_hgs),
        "ortools": ("ortools.constraint_solver.pywrapcp", solve_ortools),
    }[sys.argv[1]]
    import_module(library)  # before the clock runs
    begin = time.perf_counter()
    routes = solve(problem)
    with answer:
        json.dump({"routes": routes, "seconds": time.perf_counter() - begin}, answer)


if __name__ == "__main__":
    main()
