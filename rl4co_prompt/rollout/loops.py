"""The kernel's inner loops: products, attention and softmax over lists of nodes.

Node tensors are flat with the heads innermost, [node, head width, head], so that a vector holds
one number of every head. ``lanes`` and ``depth`` are tuples as long as the number of heads and
the width of a head, a multiple of 8. Lists of nodes have PAD entries more than they need, because
loops take several nodes at a time.
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

JIT = {"nogil": True, "error_model": "numpy"}
PAD = 8
ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
LOWEST = np.float32(-3e38)
LOG2_E, LN_2 = np.float32(1.4426950408889634), np.float32(0.6931471805599453)
_BLOCK = (0,) * 8  # lanes of loops over single numbers
_GAMMA = np.uint64(0x9E3779B97F4A7C15)


@njit(**JIT)
def mix(x):
    """A step of the SplitMix64 generator."""
    x = x + _GAMMA
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(**JIT)
def dots(out, offset, query, where, rows, nodes, count, lanes, depth):
    """out[k] = query . rows[nodes[k]], head by head."""
    heads = len(lanes)
    width = heads * len(depth)
    for k in range(0, count, 4):
        r0, r1 = nodes[k] * width, nodes[k + 1] * width
        r2, r3 = nodes[k + 2] * width, nodes[k + 3] * width
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = fill(ZERO, lanes)
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


@njit(**JIT)
def point(logits, glimpse, where, pointer, bias, nodes, count, lanes, depth):
    """logits[k] = glimpse . pointer[nodes[k]] + bias[nodes[k]]"""
    heads = len(lanes)
    width = heads * len(depth)
    for k in range(0, count, 4):
        r0, r1 = nodes[k] * width, nodes[k + 1] * width
        r2, r3 = nodes[k + 2] * width, nodes[k + 3] * width
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = fill(ZERO, lanes)
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


@njit(**JIT)
def softmax(scores, count, lanes):
    """Scores, in units of log2, to attention weights, head by head and in place."""
    heads = len(lanes)
    top = fill(LOWEST, lanes)
    for k in range(count):
        top = maximum(load(scores, k * heads, lanes), top)
    mass = fill(ZERO, lanes)
    for k in range(count):
        weight = power_of_two(subtract(load(scores, k * heads, lanes), top))
        mass = add(mass, weight)
        store(scores, k * heads, weight)
    scale = divide(fill(ONE, lanes), mass)
    for k in range(count):
        store(scores, k * heads, multiply(load(scores, k * heads, lanes), scale))


@njit(**JIT)
def gather(out, where, weights, rows, nodes, count, lanes, depth):
    """out = sum of weights[k] * rows[nodes[k]]"""
    heads = len(lanes)
    width = heads * len(depth)
    for i in range(0, width, 8 * heads):
        o0 = o1 = o2 = o3 = o4 = o5 = o6 = o7 = fill(ZERO, lanes)
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


@njit(**JIT)
def scatter(rows, nodes, count, weights, queries, lanes, depth):
    """rows[node] += sum of weights[i, node] * queries[i] over four i; the weights become 0.

    Four at a time, because the rows are too many for the innermost cache.
    """
    heads = len(lanes)
    width = heads * len(depth)
    stride = weights.shape[0] // 4
    nothing = fill(ZERO, lanes)
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


@njit(**JIT)
def clip_logits(logits, count, clip, temperature):
    """clip * tanh(logits) / temperature in place; the last block is filled up with -3e38."""
    one, two = fill(ONE, _BLOCK), fill(TWO, _BLOCK)
    log2_e = fill(TWO * LOG2_E, _BLOCK)
    scale = fill((clip if clip > 0 else ONE) / temperature, _BLOCK)
    for k in range(0, count, 8):
        x = load(logits, k, _BLOCK)
        if clip > 0:
            x = subtract(one, divide(two, add(power_of_two(multiply(log2_e, x)), one)))
        store(logits, k, multiply(x, scale))
    for k in range(count, (count + 7) // 8 * 8):
        logits[k] = LOWEST


@njit(**JIT)
def normalise(logits, shares, count):
    """log of the sum of exp(logits); ``shares`` gets unnormalised probabilities.

    Returns:
        the logarithm, and the sum of the shares.
    """
    top = fill(LOWEST, _BLOCK)
    for k in range(0, count, 8):
        top = maximum(load(logits, k, _BLOCK), top)
    high = largest(top)
    mass, top = fill(ZERO, _BLOCK), fill(high, _BLOCK)
    for k in range(0, count, 8):
        share = subtract(load(logits, k, _BLOCK), top)
        share = power_of_two(multiply(share, fill(LOG2_E, _BLOCK)))
        mass = add(mass, share)
        store(shares, k, share)
    whole = total(mass)
    return high + np.float32(math.log(whole)), whole


@njit(**JIT)
def sample(shares, count, target):
    """The place where the sum of shares passes the target."""
    reached = ZERO
    for k in range(count):
        reached += shares[k]
        if reached > target:
            return k
    return count - 1


@njit(**JIT)
def best(logits, count):
    place = 0
    for k in range(1, count):
        if logits[k] > logits[place]:
            place = k
    return place


@njit(**JIT)
def score(scores, table, row, ramp, room, trail, nodes, count, lanes):
    """Attention scores of a state, in units of log2."""
    heads = len(lanes)
    slope = fill(room, lanes)
    for k in range(count):
        at = nodes[k] * heads
        known = add(load(table, row + at, lanes), load(trail, at, lanes))
        store(scores, k * heads, fma(slope, load(ramp, at, lanes), known))


@njit(**JIT)
def logit_gradient(shares, mass, logits, place, count, weight, clip, temperature):
    """``shares`` to the gradient of weight * log-probability of the chosen place.

    By the logits before the clip; ``logits`` are those after it.
    """
    shares[place] -= mass
    scale = -weight / (mass * temperature)
    if clip > 0:
        back = temperature / clip  # from clipped logits to tanh
        for k in range(count):
            tanh = logits[k] * back
            shares[k] *= scale * clip * (ONE - tanh * tanh)
    else:
        for k in range(count):
            shares[k] *= scale


@njit(**JIT)
def softmax_gradient(slopes, weights, count, lanes):
    """Gradient by attention weights to gradient by scores, in place."""
    heads = len(lanes)
    mean = fill(ZERO, lanes)
    for k in range(count):
        mean = fma(load(weights, k * heads, lanes), load(slopes, k * heads, lanes), mean)
    for k in range(count):
        slope = subtract(load(slopes, k * heads, lanes), mean)
        store(slopes, k * heads, multiply(slope, load(weights, k * heads, lanes)))


@njit(**JIT)
def add_rows(rows, row, slopes, scale, nodes, count, lanes):
    """rows[row + nodes[k]] += scale * slopes[k]"""
    heads = len(lanes)
    factor = fill(scale, lanes)
    for k in range(count):
        at = row + nodes[k] * heads
        store(rows, at, fma(factor, load(slopes, k * heads, lanes), load(rows, at, lanes)))
