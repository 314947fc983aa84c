"""Tours and their gradients on the CPU, compiled by numba; masked nodes cost nothing.

Queries come in units of log2, for powers of two instead of exponentials. The queries of a tour
differ by current node, room left and, in TSP, first node. Their products with all keys are
tabulated once per instance, so that a step looks its attention scores up.
"""

import hashlib

from pathlib import Path

import numpy as np

from numba import njit
from numba.core.caching import NullCache

from rl4co_prompt.rollout.loops import (
    JIT,
    LN_2,
    ONE,
    PAD,
    ZERO,
    add_rows,
    best,
    clip_logits,
    dots,
    gather,
    logit_gradient,
    mix,
    normalise,
    point,
    sample,
    scatter,
    score,
    softmax,
    softmax_gradient,
)
from rl4co_prompt.rollout.pointer import TOLERANCE
from rl4co_prompt.rollout.simd import fill, load, store

FINE, STUCK, NOT_A_NUMBER = 0, 1, 2  # how tours ended
_TOLERANCE = np.float32(TOLERANCE)


@njit(**JIT)
def drop(unvisited, needs, left, node):
    """Take a node out of the ascending list of unvisited ones; returns how many are left."""
    low, high = 0, left
    while low < high:
        middle = (low + high) // 2
        if unvisited[middle] < node:
            low = middle + 1
        else:
            high = middle
    if low == left or unvisited[low] != node:
        return left
    for k in range(low, left - 1):
        unvisited[k] = unvisited[k + 1]
    for k in range(low, left - 1):
        needs[k] = needs[k + 1]
    return left - 1


@njit(**JIT)
def list_allowed(unvisited, needs, left, used, limit, last, depot, allowed):
    """List the nodes that fit, ascending; returns how many."""
    count = np.uint64(1 if depot else 0)
    allowed[0] = 0
    for k in range(np.uint64(left)):
        allowed[count] = unvisited[k]
        count += np.uint64(needs[k] + used <= limit)
    if depot and last == 0 and count > 1:  # just there: not again while a customer fits
        for k in range(1, count):
            allowed[k - 1] = allowed[k]
        count -= np.uint64(1)
    for k in range(count, count + np.uint64(PAD)):
        allowed[k] = 0
    return np.int64(count)


@njit(**JIT)
def tabulate(query, key, nodes, lanes, depth):
    """[query, node, head], the products of queries and keys."""
    width = len(lanes) * len(depth)
    row = (nodes.shape[0] - PAD) * len(lanes)
    count = query.shape[0] // width
    table = np.zeros(count * row + PAD * len(lanes), np.float32)
    for i in range(count):
        dots(table, i * row, query, i * width, key, nodes, nodes.shape[0] - PAD, lanes, depth)
    return table


@njit(**JIT)
def all_nodes(count):
    nodes = np.zeros(count + PAD, np.int32)
    for node in range(count):
        nodes[node] = node
    return nodes


@njit(**JIT)
def tours(model, demand, capacity, depot, starts, states, settings, out, lanes, depth):
    """Roll out the starts of one instance.

    Args:
        model: query, key, value, pointer, bias, first, slope; the last two may be empty.
        depot: whether node 0 is one (CVRP) or not (TSP).
        starts: [start] first nodes; negative where the policy chooses itself.
        states: [start] of the random numbers.
        settings: sampling, clip, temperature, inner mask.
        out: actions and log-probabilities [start, step], zero, and lengths [start].

    Returns:
        FINE, STUCK or NOT_A_NUMBER.
    """
    query, key, value, pointer, bias, first, slope = model
    sampling, clip, temperature, mask_inner = settings
    actions, log_probs, lengths = out
    heads, count_all = len(lanes), bias.shape[0]
    width, row = heads * len(depth), count_all * heads
    every = all_nodes(count_all)
    table = tabulate(query, key, every, lanes, depth)
    ramp = tabulate(slope, key, every, lanes, depth)
    if slope.shape[0] == 0:
        ramp = np.zeros(row + PAD * heads, np.float32)
    trail = np.zeros(row + PAD * heads, np.float32)
    scores = np.empty(row + PAD * heads, np.float32)
    glimpse = np.empty(width, np.float32)
    logits, shares = np.empty(count_all + PAD, np.float32), np.empty(count_all + PAD, np.float32)
    unvisited, allowed = np.empty(count_all + PAD, np.int32), np.empty(count_all + PAD, np.int32)
    needs = np.empty(count_all + PAD, np.float32)
    limit = capacity + _TOLERANCE
    for s in range(starts.shape[0]):
        left = 0
        for node in range(1 if depot else 0, count_all):
            unvisited[left], needs[left] = node, demand[node]
            left += 1
        current, last = (0, 0) if depot else (count_all, -1)
        used, home, t = ZERO, not depot, 0
        trail[:] = ZERO
        while left > 0 or not home:
            count = list_allowed(unvisited, needs, left, used, limit, last, depot, allowed)
            chosen, log_prob = allowed[0], ZERO
            if t == 0 and starts[s] >= 0:
                chosen = starts[s]
            elif count == 0 or (depot and last == 0 and left > 0 and chosen == 0):
                return STUCK
            elif count > 1:
                room = capacity - used
                if mask_inner:
                    inner, seen = allowed, count
                else:
                    inner, seen = every, count_all
                score(scores, table, current * row, ramp, room, trail, inner, seen, lanes)
                softmax(scores, seen, lanes)
                gather(glimpse, 0, scores, value, inner, seen, lanes, depth)
                point(logits, glimpse, 0, pointer, bias, allowed, count, lanes, depth)
                clip_logits(logits, count, clip, temperature)
                normaliser, mass = normalise(logits, shares, count)
                if sampling:
                    number = np.float32(mix(states[s] + np.uint64(t)) >> np.uint64(41))
                    place = sample(shares, count, mass * (number * np.float32(2.0**-23)))
                else:
                    place = best(logits, count)
                chosen, log_prob = allowed[place], logits[place] - normaliser
                if log_prob != log_prob:
                    return NOT_A_NUMBER
            if t == 0 and not depot:
                dots(trail, 0, first, chosen * width, key, every, count_all, lanes, depth)
            actions[s, t], log_probs[s, t] = chosen, log_prob
            used = ZERO if depot and chosen == 0 else used + demand[chosen]
            home = home or chosen == 0
            left = drop(unvisited, needs, left, chosen)
            current = last = chosen
            t += 1
        lengths[s] = t
    return FINE


@njit(**JIT)
def untabulate(table_slope, query, key, query_slope, key_slope, nodes, lanes, depth):
    """Gradient by a table of products to those by queries and keys."""
    heads = len(lanes)
    width = heads * len(depth)
    count = nodes.shape[0] - PAD
    row = count * heads
    queries, weights = np.zeros(4 * width, np.float32), np.zeros(4 * row, np.float32)
    total_slope = np.empty(width, np.float32)
    for i in range(query.shape[0] // width):
        slopes = table_slope[i * row :]
        gather(total_slope, 0, slopes, key, nodes, count, lanes, depth)
        for j in range(width):
            query_slope[i * width + j] += total_slope[j]
            queries[i % 4 * width + j] = query[i * width + j] * LN_2  # back from log2
        weights[i % 4 * row : (i % 4 + 1) * row] = slopes[:row]
        if i % 4 == 3 or (i + 1) * width == query.shape[0]:
            scatter(key_slope, nodes, count, weights, queries, lanes, depth)


@njit(**JIT)
def gradients(
    model, demand, capacity, depot, chooses, actions, weights, settings, out, lanes, depth
):
    """Add the gradient of the weighted log-probabilities of one instance's tours.

    Args:
        model, demand, capacity, depot, settings: as in :func:`tours`.
        chooses: whether the policy chose the first node.
        actions, weights: [start, step]; the steps after a tour's end have weight 0.
        out: gradients by query, key, value, pointer, bias, first and slope.
    """
    query, key, value, pointer, bias, first, slope = model
    _, clip, temperature, mask_inner = settings
    d_query, d_key, d_value, d_pointer, d_bias, d_first, d_slope = out
    heads, count_all = len(lanes), bias.shape[0]
    width, row = heads * len(depth), count_all * heads
    every = all_nodes(count_all)
    table = tabulate(query, key, every, lanes, depth)
    d_table = np.zeros_like(table)
    ramp = tabulate(slope, key, every, lanes, depth)
    if slope.shape[0] == 0:
        ramp = np.zeros(row + PAD * heads, np.float32)
    d_ramp = np.zeros_like(ramp)
    trail, d_trail = np.zeros_like(ramp), np.zeros_like(ramp)
    scores, slopes = np.empty_like(ramp), np.empty_like(ramp)
    logits, shares = np.empty(count_all + PAD, np.float32), np.empty(count_all + PAD, np.float32)
    unvisited, allowed = np.empty(count_all + PAD, np.int32), np.empty(count_all + PAD, np.int32)
    needs = np.empty(count_all + PAD, np.float32)
    # Of the last four steps, until they are added to the gradients by pointer and value.
    glimpse, d_glimpse = np.zeros(4 * width, np.float32), np.zeros(4 * width, np.float32)
    by_pointer, by_value = np.zeros(4 * row, np.float32), np.zeros(4 * row, np.float32)
    reached = np.empty(count_all + PAD, np.int32)
    limit = capacity + _TOLERANCE
    for s in range(actions.shape[0]):
        left = 0
        for node in range(1 if depot else 0, count_all):
            unvisited[left], needs[left] = node, demand[node]
            left += 1
        current, last = (0, 0) if depot else (count_all, -1)
        used, held, reach = ZERO, 0, 0
        trail[:] = ZERO
        d_trail[:] = ZERO
        for t in range(actions.shape[1]):
            chosen = actions[s, t]
            if left == 0:
                break
            count = list_allowed(unvisited, needs, left, used, limit, last, depot, allowed)
            if weights[s, t] != 0 and count > 1 and (t > 0 or chooses):
                if held == 0:
                    reached[0] = 0
                    reach = 1 if depot else 0
                    reached[reach : reach + left] = unvisited[:left]
                    reach += left
                room = capacity - used
                if mask_inner:
                    inner, seen = allowed, count
                else:
                    inner, seen = every, count_all
                at, dense = held * width, held * row
                score(scores, table, current * row, ramp, room, trail, inner, seen, lanes)
                softmax(scores, seen, lanes)
                gather(glimpse, at, scores, value, inner, seen, lanes, depth)
                point(logits, glimpse, at, pointer, bias, allowed, count, lanes, depth)
                clip_logits(logits, count, clip, temperature)
                _, mass = normalise(logits, shares, count)
                place = 0
                while place < count - 1 and allowed[place] != chosen:
                    place += 1
                weight = weights[s, t]
                logit_gradient(shares, mass, logits, place, count, weight, clip, temperature)
                for k in range(count):
                    by_logit = fill(shares[k], lanes)
                    d_bias[allowed[k]] += shares[k]
                    store(slopes, k * heads, by_logit)
                    store(by_pointer, dense + allowed[k] * heads, by_logit)
                gather(d_glimpse, at, slopes, pointer, allowed, count, lanes, depth)
                dots(slopes, 0, d_glimpse, at, value, inner, seen, lanes, depth)
                for k in range(seen):
                    share = load(scores, k * heads, lanes)
                    store(by_value, dense + inner[k] * heads, share)
                softmax_gradient(slopes, scores, seen, lanes)
                add_rows(d_table, current * row, slopes, ONE, inner, seen, lanes)
                if depot:
                    add_rows(d_ramp, 0, slopes, room, inner, seen, lanes)
                else:
                    add_rows(d_trail, 0, slopes, ONE, inner, seen, lanes)
                held += 1
            if t == 0 and not depot:
                dots(trail, 0, first, chosen * width, key, every, count_all, lanes, depth)
                d_trail[:] = ZERO  # the first choice itself knows no first node
            used = ZERO if depot and chosen == 0 else used + demand[chosen]
            left = drop(unvisited, needs, left, chosen)
            current = last = chosen
            if held == 4 or (held > 0 and (left == 0 or t == actions.shape[1] - 1)):
                scatter(d_pointer, reached, reach, by_pointer, glimpse, lanes, depth)
                if mask_inner:
                    scatter(d_value, reached, reach, by_value, d_glimpse, lanes, depth)
                else:
                    scatter(d_value, every, count_all, by_value, d_glimpse, lanes, depth)
                held = 0
        if not depot:
            begin = actions[s, 0] * width
            rows = slice(begin, begin + width)
            untabulate(d_trail, first[rows], key, d_first[rows], d_key, every, lanes, depth)
    untabulate(d_table, query, key, d_query, d_key, every, lanes, depth)
    untabulate(d_ramp, slope, key, d_slope, d_key, every, lanes, depth)


def _keep_compiled() -> None:
    """Cache machine code beside the sources; numba itself would miss changes of imported loops."""
    here = Path(__file__).parent
    sources = b"".join((here / name).read_bytes() for name in ("simd.py", "loops.py", "kernel.py"))
    entries = (tours, gradients)
    try:
        for entry in entries:
            entry.enable_caching()
        folder = Path(entries[0]._cache.cache_path)
        stamp = folder / f"kernel-{hashlib.sha256(sources).hexdigest()[:16]}.stamp"
        if not stamp.exists():
            for entry in entries:
                entry._cache.flush()
            for old in folder.glob("kernel-*.stamp"):
                old.unlink(missing_ok=True)
            stamp.touch()
    except (RuntimeError, OSError):  # no folder to write to: compile in every process
        for entry in entries:
            entry._cache = NullCache()


_keep_compiled()
