"""POMO's CVRP model in a few lines of plain PyTorch, written from its formulas, to compare with."""

import torch

from torch import Tensor


class ReferencePOMO:
    """Encoder and greedy multi-start rollout that read a POMO state dict by its own names."""

    def __init__(self, weights: dict[str, Tensor], num_heads: int, layers: int):
        self.w, self.heads, self.layers = weights, num_heads, layers

    def linear(self, x: Tensor, name: str) -> Tensor:
        y = x @ self.w[f"{name}.weight"].T
        return y + self.w[f"{name}.bias"] if f"{name}.bias" in self.w else y

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.heads, -1).transpose(-3, -2)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None = None) -> Tensor:
        q, k, v = map(self.split, (q, k, v))
        score = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if blocked is not None:
            score = score.masked_fill(blocked[:, None], -torch.inf)
        return (score.softmax(-1) @ v).transpose(-3, -2).flatten(-2)

    def norm(self, x: Tensor, name: str) -> Tensor:
        x = (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, correction=0) + 1e-5).sqrt()
        return x * self.w[f"{name}.norm.weight"] + self.w[f"{name}.norm.bias"]

    def encode(self, depot: Tensor, customers: Tensor, demand: Tensor) -> Tensor:
        nodes = torch.cat((customers, demand[..., None]), -1)
        h = torch.cat(
            (
                self.linear(depot[:, None], "encoder.embedding_depot"),
                self.linear(nodes, "encoder.embedding_node"),
            ),
            1,
        )
        for i in range(self.layers):
            name = f"encoder.layers.{i}"
            a = self.attend(*(self.linear(h, f"{name}.W{x}") for x in "qkv"))
            a = h + self.linear(a, f"{name}.multi_head_combine")
            a = self.norm(a, f"{name}.add_n_normalization_1")
            f = self.linear(a, f"{name}.feed_forward.W1").relu()
            f = a + self.linear(f, f"{name}.feed_forward.W2")
            h = self.norm(f, f"{name}.add_n_normalization_2")
        return h

    def rollout(self, depot: Tensor, customers: Tensor, demand: Tensor) -> Tensor:
        """Greedy tours from every customer. -> [batch, start, step]"""
        h = self.encode(depot, customers, demand)
        batch, n = demand.shape
        k, v = (self.linear(h, f"decoder.W{x}") for x in "kv")
        weight = torch.cat((torch.zeros(batch, 1), demand), 1)[:, None].expand(-1, n, -1)
        node = torch.arange(1, n + 1).expand(batch, n)
        visited = torch.zeros(batch, n, n + 1, dtype=torch.bool)
        load, tour = torch.ones(batch, n), []
        rows = torch.arange(batch)[:, None]
        while True:
            tour.append(node)
            visited = visited.scatter(-1, node[..., None], True)
            load = load - weight.gather(-1, node[..., None]).squeeze(-1)
            load = torch.where(node == 0, torch.ones_like(load), load)
            served = visited[..., 1:].all(-1)
            blocked = visited | (weight > load[..., None] + 1e-5)
            blocked[..., 0] = (node == 0) & ~served
            if served.all():
                return torch.stack(tour, -1)
            q = self.linear(torch.cat((h[rows, node], load[..., None]), -1), "decoder.Wq_last")
            out = self.linear(self.attend(q, k, v, blocked), "decoder.multi_head_combine")
            score = 10 * (out @ h.transpose(1, 2) / h.shape[-1] ** 0.5).tanh()
            node = score.masked_fill(blocked, -torch.inf).argmax(-1)


def random_weights(embed_dim: int, layers: int, feedforward: int, seed: int = 0):
    """A state dict with the names and shapes of POMO's CVRP checkpoints."""
    rng = torch.Generator().manual_seed(seed)
    weights = {}

    def add(name: str, rows: int, columns: int | None, bias: bool) -> None:
        scale = (columns or 4) ** -0.5
        shape = (rows,) if columns is None else (rows, columns)
        weights[f"{name}.weight"] = scale * torch.randn(shape, generator=rng)
        if bias:
            weights[f"{name}.bias"] = 0.1 * torch.randn(rows, generator=rng)

    add("encoder.embedding_depot", embed_dim, 2, True)
    add("encoder.embedding_node", embed_dim, 3, True)
    for i in range(layers):
        name = f"encoder.layers.{i}"
        for x in "qkv":
            add(f"{name}.W{x}", embed_dim, embed_dim, False)
        add(f"{name}.multi_head_combine", embed_dim, embed_dim, True)
        add(f"{name}.add_n_normalization_1.norm", embed_dim, None, True)
        add(f"{name}.feed_forward.W1", feedforward, embed_dim, True)
        add(f"{name}.feed_forward.W2", embed_dim, feedforward, True)
        add(f"{name}.add_n_normalization_2.norm", embed_dim, None, True)
    add("decoder.Wq_last", embed_dim, embed_dim + 1, False)
    for x in "kv":
        add(f"decoder.W{x}", embed_dim, embed_dim, False)
    add("decoder.multi_head_combine", embed_dim, embed_dim, True)
    weights["decoder.multi_head_combine.weight"] *= 0.2  # scores that saturate would tie
    return weights
