"""Tours and their gradients on the CPU, compiled by numba; masked nodes cost nothing.

Node tensors are flat with the heads innermost, [node, head width, head], so that a vector holds
one number of every head. ``lanes`` and ``depth`` are tuples as long as the number of heads and
the width of a head, a multiple of 8. Queries come in units of log2, for powers of two instead
of exponentials.

The queries of a tour differ by current node, room left and, in TSP, first node. Their products
with all keys are tabulated once per instance, so that a step looks its attention scores up.
"""

import math

import numpy as np

from numba import njit

from rl4co_prompt.rollout.simd import (
    add,
    divide,
    fill,
    fma,
    largest,
    load,
    maximum,
    multiply,
    power_of_two,
    store,
    store_totals,
    subtract,
    total,
)

FINE, STUCK, NOT_A_NUMBER = 0, 1, 2  # how a tour ended
PAD = 8  # room behind the lists of nodes, for loops that take several at a time

_BLOCK = (0,) * 8
_ZERO, _ONE, _TWO = np.float32(0), np.float32(1), np.float32(2)
_LOWEST = np.float32(-3e38)
_LOG2_E, _LN_2 = np.float32(1.4426950408889634), np.float32(0.6931471805599453)
_TOLERANCE = np.float32(1e-5)  # of RL4CO's capacity test
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_JIT = {"nogil": True, "cache": True, "error_model": "numpy"}


@njit(**_JIT)
def mix(x):
    """A step of the SplitMix64 generator."""
    x = x + _GAMMA
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(**_JIT)
def dots(out, offset, query, where, rows, nodes, count, lanes, depth):
    """out[k] = query . rows[nodes[k]], head by head."""
    heads = len(lanes)
    width = heads * len(depth)
    for k in range(0, count, 4):
        r0, r1 = nodes[k] * width, nodes[k + 1] * width
        r2, r3 = nodes[k + 2] * width, nodes[k + 3] * width
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = fill(_ZERO, lanes)
        for i in range(0, width, 2 * heads):
            q, p = load(query, where + i, lanes), load(query, where + i + heads, lanes)
            a0 = fma(q, load(rows, r0 + i, lanes), a0)
            a1 = fma(q, load(rows, r1 + i, lanes), a1)
            a2 = fma(q, load(rows, r2 + i, lanes), a2)
            a3 = fma(q, load(rows, r3 + i, lanes), a3)
            b0 = fma(p, load(rows, r0 + i + heads, lanes), b0)
            b1 = fma(p, load(rows, r1 + i + heads, lanes), b1)
            b2 = fma(p, load(rows, r2 + i + heads, lanes), b2)
            b3 = fma(p, load(rows, r3 + i + heads, lanes), b3)
        at = offset + k * heads
        store(out, at, add(a0, b0))
        store(out, at + heads, add(a1, b1))
        store(out, at + 2 * heads, add(a2, b2))
        store(out, at + 3 * heads, add(a3, b3))


@njit(**_JIT)
def point(logits, glimpse, where, pointer, bias, nodes, count, lanes, depth):
    """logits[k] = glimpse . pointer[nodes[k]] + bias[nodes[k]]"""
    heads = len(lanes)
    width = heads * len(depth)
    for k in range(0, count, 4):
        r0, r1 = nodes[k] * width, nodes[k + 1] * width
        r2, r3 = nodes[k + 2] * width, nodes[k + 3] * width
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = fill(_ZERO, lanes)
        for i in range(0, width, 2 * heads):
            q, p = load(glimpse, where + i, lanes), load(glimpse, where + i + heads, lanes)
            a0 = fma(q, load(pointer, r0 + i, lanes), a0)
            a1 = fma(q, load(pointer, r1 + i, lanes), a1)
            a2 = fma(q, load(pointer, r2 + i, lanes), a2)
            a3 = fma(q, load(pointer, r3 + i, lanes), a3)
            b0 = fma(p, load(pointer, r0 + i + heads, lanes), b0)
            b1 = fma(p, load(pointer, r1 + i + heads, lanes), b1)
            b2 = fma(p, load(pointer, r2 + i + heads, lanes), b2)
            b3 = fma(p, load(pointer, r3 + i + heads, lanes), b3)
        store_totals(logits, k, add(a0, b0), add(a1, b1), add(a2, b2), add(a3, b3))
    for k in range(count):
        logits[k] += bias[nodes[k]]


@njit(**_JIT)
def softmax(scores, count, lanes):
    """Scores, in units of log2, to attention weights, head by head and in place."""
    heads = len(lanes)
    top = fill(_LOWEST, lanes)
    for k in range(count):
        top = maximum(load(scores, k * heads, lanes), top)
    mass = fill(_ZERO, lanes)
    for k in range(count):
        weight = power_of_two(subtract(load(scores, k * heads, lanes), top))
        mass = add(mass, weight)
        store(scores, k * heads, weight)
    scale = divide(fill(_ONE, lanes), mass)
    for k in range(count):
        store(scores, k * heads, multiply(load(scores, k * heads, lanes), scale))


@njit(**_JIT)
def gather(out, where, weights, rows, nodes, count, lanes, depth):
    """out = sum of weights[k] * rows[nodes[k]]"""
    heads = len(lanes)
    width = heads * len(depth)
    for i in range(0, width, 8 * heads):
        o0 = o1 = o2 = o3 = o4 = o5 = o6 = o7 = fill(_ZERO, lanes)
        for k in range(count):
            w = load(weights, k * heads, lanes)
            r = nodes[k] * width + i
            o0 = fma(w, load(rows, r, lanes), o0)
            o1 = fma(w, load(rows, r + heads, lanes), o1)
            o2 = fma(w, load(rows, r + 2 * heads, lanes), o2)
            o3 = fma(w, load(rows, r + 3 * heads, lanes), o3)
            o4 = fma(w, load(rows, r + 4 * heads, lanes), o4)
            o5 = fma(w, load(rows, r + 5 * heads, lanes), o5)
            o6 = fma(w, load(rows, r + 6 * heads, lanes), o6)
            o7 = fma(w, load(rows, r + 7 * heads, lanes), o7)
        at = where + i
        store(out, at, o0)
        store(out, at + heads, o1)
        store(out, at + 2 * heads, o2)
        store(out, at + 3 * heads, o3)
        store(out, at + 4 * heads, o4)
        store(out, at + 5 * heads, o5)
        store(out, at + 6 * heads, o6)
        store(out, at + 7 * heads, o7)


@njit(**_JIT)
def scatter(rows, nodes, count, weights, queries, lanes, depth):
    """rows[node] += sum of weights[i, node] * queries[i] over four i; the weights become 0.

    Four at a time, because the rows are too many for the innermost cache.
    """
    heads = len(lanes)
    width = heads * len(depth)
    stride = weights.shape[0] // 4
    nothing = fill(_ZERO, lanes)
    for k in range(count):
        at, r = nodes[k] * heads, nodes[k] * width
        w0, w1 = load(weights, at, lanes), load(weights, stride + at, lanes)
        w2, w3 = load(weights, 2 * stride + at, lanes), load(weights, 3 * stride + at, lanes)
        store(weights, at, nothing)
        store(weights, stride + at, nothing)
        store(weights, 2 * stride + at, nothing)
        store(weights, 3 * stride + at, nothing)
        for i in range(0, width, heads):
            x = fma(w0, load(queries, i, lanes), load(rows, r + i, lanes))
            x = fma(w1, load(queries, width + i, lanes), x)
            x = fma(w2, load(queries, 2 * width + i, lanes), x)
            store(rows, r + i, fma(w3, load(queries, 3 * width + i, lanes), x))


@njit(**_JIT)
def clip_logits(logits, count, clip, temperature):
    """clip * tanh(logits) / temperature in place; the last block is filled up with -3e38."""
    one, two = fill(_ONE, _BLOCK), fill(_TWO, _BLOCK)
    log2_e = fill(_TWO * _LOG2_E, _BLOCK)
    scale = fill((clip if clip > 0 else _ONE) / temperature, _BLOCK)
    for k in range(0, count, 8):
        x = load(logits, k, _BLOCK)
        if clip > 0:
            x = subtract(one, divide(two, add(power_of_two(multiply(log2_e, x)), one)))
        store(logits, k, multiply(x, scale))
    for k in range(count, (count + 7) // 8 * 8):
        logits[k] = _LOWEST


@njit(**_JIT)
def normalise(logits, shares, count):
    """log of the sum of exp(logits); ``shares`` gets unnormalised probabilities.

    Returns:
        the logarithm, and the sum of the shares.
    """
    top = fill(_LOWEST, _BLOCK)
    for k in range(0, count, 8):
        top = maximum(load(logits, k, _BLOCK), top)
    high = largest(top)
    mass, top = fill(_ZERO, _BLOCK), fill(high, _BLOCK)
    for k in range(0, count, 8):
        share = subtract(load(logits, k, _BLOCK), top)
        share = power_of_two(multiply(share, fill(_LOG2_E, _BLOCK)))
        mass = add(mass, share)
        store(shares, k, share)
    whole = total(mass)
    return high + np.float32(math.log(whole)), whole


@njit(**_JIT)
def sample(shares, count, target):
    """The place where the sum of shares passes the target."""
    reached = _ZERO
    for k in range(count):
        reached += shares[k]
        if reached > target:
            return k
    return count - 1


@njit(**_JIT)
def best(logits, count):
    place = 0
    for k in range(1, count):
        if logits[k] > logits[place]:
            place = k
    return place


@njit(**_JIT)
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


@njit(**_JIT)
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


@njit(**_JIT)
def tabulate(query, key, nodes, lanes, depth):
    """[query, node, head], the products of queries and keys."""
    width = len(lanes) * len(depth)
    row = (nodes.shape[0] - PAD) * len(lanes)
    count = query.shape[0] // width
    table = np.zeros(count * row + PAD * len(lanes), np.float32)
    for i in range(count):
        dots(table, i * row, query, i * width, key, nodes, nodes.shape[0] - PAD, lanes, depth)
    return table


@njit(**_JIT)
def score(scores, table, row, ramp, room, trail, nodes, count, lanes):
    """Attention scores of a state, in units of log2."""
    heads = len(lanes)
    slope = fill(room, lanes)
    for k in range(count):
        at = nodes[k] * heads
        known = add(load(table, row + at, lanes), load(trail, at, lanes))
        store(scores, k * heads, fma(slope, load(ramp, at, lanes), known))


@njit(**_JIT)
def all_nodes(count):
    nodes = np.zeros(count + PAD, np.int32)
    for node in range(count):
        nodes[node] = node
    return nodes


@njit(**_JIT)
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
        used, home, t = _ZERO, not depot, 0
        trail[:] = _ZERO
        while left > 0 or not home:
            count = list_allowed(unvisited, needs, left, used, limit, last, depot, allowed)
            chosen, log_prob = allowed[0], _ZERO
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
            used = _ZERO if depot and chosen == 0 else used + demand[chosen]
            home = home or chosen == 0
            left = drop(unvisited, needs, left, chosen)
            current = last = chosen
            t += 1
        lengths[s] = t
    return FINE


@njit(**_JIT)
def logit_gradient(shares, mass, logits, place, count, weight, clip, temperature):
    """Of weight * log-probability of the chosen place by the logits before the clip; in ``shares``."""
    shares[place] -= mass
    scale = -weight / (mass * temperature)
    if clip > 0:
        back = temperature / clip  # from clipped logits to tanh
        for k in range(count):
            tanh = logits[k] * back
            shares[k] *= scale * clip * (_ONE - tanh * tanh)
    else:
        for k in range(count):
            shares[k] *= scale


@njit(**_JIT)
def softmax_gradient(slopes, weights, count, lanes):
    """Gradient by attention weights to gradient by scores, in place."""
    heads = len(lanes)
    mean = fill(_ZERO, lanes)
    for k in range(count):
        mean = fma(load(weights, k * heads, lanes), load(slopes, k * heads, lanes), mean)
    for k in range(count):
        slope = subtract(load(slopes, k * heads, lanes), mean)
        store(slopes, k * heads, multiply(slope, load(weights, k * heads, lanes)))


@njit(**_JIT)
def add_rows(rows, row, slopes, scale, nodes, count, lanes):
    """rows[row + nodes[k]] += scale * slopes[k]"""
    heads = len(lanes)
    factor = fill(scale, lanes)
    for k in range(count):
        at = row + nodes[k] * heads
        store(rows, at, fma(factor, load(slopes, k * heads, lanes), load(rows, at, lanes)))


@njit(**_JIT)
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
            queries[i % 4 * width + j] = query[i * width + j] * _LN_2  # back from log2
        weights[i % 4 * row : (i % 4 + 1) * row] = slopes[:row]
        if i % 4 == 3 or (i + 1) * width == query.shape[0]:
            scatter(key_slope, nodes, count, weights, queries, lanes, depth)


@njit(**_JIT)
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
        used, held, reach = _ZERO, 0, 0
        trail[:] = _ZERO
        d_trail[:] = _ZERO
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
                while allowed[place] != chosen:
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
                add_rows(d_table, current * row, slopes, _ONE, inner, seen, lanes)
                if depot:
                    add_rows(d_ramp, 0, slopes, room, inner, seen, lanes)
                else:
                    add_rows(d_trail, 0, slopes, _ONE, inner, seen, lanes)
                held += 1
            if t == 0 and not depot:
                dots(trail, 0, first, chosen * width, key, every, count_all, lanes, depth)
                d_trail[:] = _ZERO  # the first choice itself knows no first node
            used = _ZERO if depot and chosen == 0 else used + demand[chosen]
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
