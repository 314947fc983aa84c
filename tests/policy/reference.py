"""Outside models in a few lines of plain PyTorch, written from their formulas, to compare with."""

import torch

from torch import Tensor


class Reference:
    """Multi-head attention and norms that read a state dict by its own names.

    Args:
        norm_kind: ``instance``, ``batch`` (tracked) or ``batch_no_track``.
    """

    def __init__(self, weights: dict[str, Tensor], num_heads: int, layers: int, norm_kind: str):
        self.w, self.heads, self.layers, self.norm_kind = weights, num_heads, layers, norm_kind

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
        if self.norm_kind == "batch":
            mean, var = self.w[f"{name}.running_mean"], self.w[f"{name}.running_var"]
        else:
            over = 1 if self.norm_kind == "instance" else (0, 1)
            mean, var = x.mean(over, keepdim=True), x.var(over, keepdim=True, correction=0)
        x = (x - mean) / (var + 1e-5).sqrt()
        return x * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]

    def cvrp(self, h: Tensor, demand: Tensor, start: Tensor, load: Tensor) -> Tensor:
        """Greedy tours from [batch, start] nodes. -> [batch, start, step]"""
        batch, starts = start.shape
        weight = torch.cat((torch.zeros(batch, 1), demand), 1)[:, None].expand(-1, starts, -1)
        node, tour = start, []
        visited = torch.zeros(weight.shape, dtype=torch.bool)
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
            score = self.score(h, self.query(h, h[rows, node], load[..., None]), blocked)
            node = score.masked_fill(blocked, -torch.inf).argmax(-1)

    def tsp(self, h: Tensor, start: Tensor) -> Tensor:
        """Greedy tours from [batch, start] nodes. -> [batch, start, node]"""
        rows = torch.arange(len(h))[:, None]
        node, tour = start, [start]
        blocked = torch.zeros(*start.shape, h.shape[1], dtype=torch.bool)
        for _ in range(h.shape[1] - 1):
            blocked = blocked.scatter(-1, node[..., None], True)
            query = self.tsp_query(h, h[rows, start], h[rows, node])
            node = self.score(h, query, blocked).masked_fill(blocked, -torch.inf).argmax(-1)
            tour.append(node)
        return torch.stack(tour, -1)


class ReferencePOMO(Reference):
    """POMO's models by the names of their CVRP checkpoints."""

    norm_name, feed_name, decoder = "add_n_normalization_{}.norm", "feed_forward", "decoder"

    def __init__(
        self, weights: dict[str, Tensor], num_heads: int, layers: int, norm_kind: str = "instance"
    ):
        super().__init__(weights, num_heads, layers, norm_kind)

    def encode(
        self, depot: Tensor, customers: Tensor, demand: Tensor, prompt: Tensor | None = None
    ) -> Tensor:
        """-> [batch, token, embed]; PromptVRP's prompts are [batch, token, layer, embed]"""
        nodes = self.linear(torch.cat((customers, demand[..., None]), -1), "encoder.embedding_node")
        depot = self.linear(depot[:, None], "encoder.embedding_depot")
        return self.encode_embedded(torch.cat((depot, nodes), 1), prompt)

    def encode_embedded(self, h: Tensor, prompt: Tensor | None = None) -> Tensor:
        self.attention = []
        for i in range(self.layers):
            name = f"encoder.layers.{i}"
            h = h if prompt is None else torch.cat((h, prompt[:, :, i]), 1)
            a = self.attend(*(self.linear(h, f"{name}.W{x}") for x in "qkv"))
            self.attention.append(self.linear(a, f"{name}.multi_head_combine"))
            a = h + self.attention[-1]
            a = self.norm(a, f"{name}.{self.norm_name.format(1)}")
            f = self.linear(a, f"{name}.{self.feed_name}.W1").relu()
            f = a + self.linear(f, f"{name}.{self.feed_name}.W2")
            h = self.norm(f, f"{name}.{self.norm_name.format(2)}")
        return h

    def query(self, h: Tensor, last: Tensor, load: Tensor) -> Tensor:
        return self.linear(torch.cat((last, load), -1), "decoder.Wq_last")

    def score(self, h: Tensor, query: Tensor, blocked: Tensor) -> Tensor:
        k, v = (self.linear(h, f"{self.decoder}.W{x}") for x in "kv")
        out = self.linear(self.attend(query, k, v, blocked), f"{self.decoder}.multi_head_combine")
        return 10 * (out @ h.transpose(1, 2) / h.shape[-1] ** 0.5).tanh()

    def rollout(self, depot: Tensor, customers: Tensor, demand: Tensor) -> Tensor:
        """Greedy tours from every customer. -> [batch, start, step]"""
        batch, n = demand.shape
        start = torch.arange(1, n + 1).expand(batch, n)
        return self.cvrp(self.encode(depot, customers, demand), demand, start, torch.ones(batch, n))

    def tsp_rollout(self, locs: Tensor) -> Tensor:
        """Greedy tours from every node. -> [batch, start, node]"""
        h = self.encode_embedded(self.linear(locs, "encoder.embedding"))
        return self.tsp(h, torch.arange(locs.shape[1]).expand(locs.shape[:2]))


class ReferenceTSP(ReferencePOMO):
    """POMO's TSP model."""

    norm_name, feed_name = "addAndNormalization{}.norm", "feedForward"

    def tsp_query(self, h: Tensor, first: Tensor, last: Tensor) -> Tensor:
        return self.linear(first, "decoder.Wq_first") + self.linear(last, "decoder.Wq_last")


class ReferenceFirstRelease(ReferencePOMO):
    """POMO's models as they were released first: batch norm, and all nodes' mean in the query."""

    norm_name, feed_name = "addAndNormalization{}.norm_by_EMB", "feedForward"
    decoder = "node_prob_calculator"

    def query(self, h: Tensor, last: Tensor, load: Tensor) -> Tensor:
        graph = h.mean(1, keepdim=True).expand_as(last)
        return self.linear(torch.cat((graph, last, load), -1), f"{self.decoder}.Wq")

    def tsp_query(self, h: Tensor, first: Tensor, last: Tensor) -> Tensor:
        parts = {"graph": h.mean(1, keepdim=True), "first": first, "last": last}
        return sum(self.linear(x, f"{self.decoder}.Wq_{name}") for name, x in parts.items())


class ReferenceKool(Reference):
    """Kool's attention model; heads have weights of their own."""

    def encode(self, td: dict[str, Tensor]) -> Tensor:
        features = [td[x][..., None] for x in ("demand", "prize", "penalty") if x in td]
        if not features:
            h = self.linear(td["locs"], "init_embed")
        else:
            nodes = torch.cat((td["locs"], *features), -1)
            depot = self.linear(td["depot"][:, None], "init_embed_depot")
            h = torch.cat((depot, self.linear(nodes, "init_embed")), 1)
        for i in range(self.layers):
            name = f"embedder.layers.{i}"
            w = {x: self.w[f"{name}.0.module.W_{x}"] for x in ("query", "key", "val", "out")}
            q, k, v = (torch.einsum("bne,hed->bhnd", h, w[x]) for x in ("query", "key", "val"))
            weight = (torch.einsum("bhnd,bhmd->bhnm", q, k) / q.shape[-1] ** 0.5).softmax(-1)
            h = h + torch.einsum("bhnm,bhmd,hde->bne", weight, v, w["out"])
            h = self.norm(h, f"{name}.1.normalizer")
            f = self.linear(self.linear(h, f"{name}.2.module.0").relu(), f"{name}.2.module.2")
            h = self.norm(h + f, f"{name}.3.normalizer")
        return h

    def query(self, h: Tensor, last: Tensor, load: Tensor) -> Tensor:
        return self.with_graph(h, torch.cat((last, load), -1))

    def tsp_query(self, h: Tensor, first: Tensor, last: Tensor) -> Tensor:
        return self.with_graph(h, torch.cat((first, last), -1))

    def with_graph(self, h: Tensor, context: Tensor) -> Tensor:
        graph = self.linear(h.mean(1, keepdim=True), "project_fixed_context")
        return graph + self.linear(context, "project_step_context")

    def score(
        self, h: Tensor, query: Tensor, blocked: Tensor, demand_left: Tensor | None = None
    ) -> Tensor:
        projected = self.linear(h, "project_node_embeddings")
        if demand_left is not None:
            projected = projected + self.linear(demand_left[..., None], "project_node_step")
        k, v, logit = projected.chunk(3, -1)
        out = self.linear(self.attend(query, k, v, blocked), "project_out")
        return 10 * (out @ logit.transpose(1, 2) / h.shape[-1] ** 0.5).tanh()

    def first_node(self, h: Tensor) -> Tensor:
        """The TSP tour's first node, by the placeholder. -> [batch, 1]"""
        context = self.w["W_placeholder"].expand(len(h), 1, -1)
        blocked = torch.zeros(len(h), 1, h.shape[1], dtype=torch.bool)
        return self.score(h, self.with_graph(h, context), blocked).argmax(-1)


class _Weights(dict):
    """Random weights by name."""

    def __init__(self, seed: int):
        super().__init__()
        self.rng = torch.Generator().manual_seed(seed)

    def random(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.rng)

    def linear(self, name: str, rows: int, columns: int, bias: bool = False) -> None:
        self[f"{name}.weight"] = columns**-0.5 * self.random(rows, columns)
        if bias:
            self[f"{name}.bias"] = 0.1 * self.random(rows)

    def norm(self, name: str, width: int, tracked: bool) -> None:
        self[f"{name}.weight"] = 0.5 * self.random(width)
        self[f"{name}.bias"] = 0.1 * self.random(width)
        if tracked:
            self[f"{name}.running_mean"] = 0.1 * self.random(width)
            self[f"{name}.running_var"] = 0.5 + self.random(width) ** 2
            self[f"{name}.num_batches_tracked"] = torch.tensor(7)


def _pomo_encoder(w: _Weights, kind: type[ReferencePOMO], width, layers, hidden, tracked) -> None:
    for i in range(layers):
        name = f"encoder.layers.{i}"
        for x in "qkv":
            w.linear(f"{name}.W{x}", width, width)
        w.linear(f"{name}.multi_head_combine", width, width, True)
        w.norm(f"{name}.{kind.norm_name.format(1)}", width, tracked)
        w.linear(f"{name}.{kind.feed_name}.W1", hidden, width, True)
        w.linear(f"{name}.{kind.feed_name}.W2", width, hidden, True)
        w.norm(f"{name}.{kind.norm_name.format(2)}", width, tracked)


def _pomo_decoder(w: _Weights, decoder: str, width: int) -> None:
    for x in "kv":
        w.linear(f"{decoder}.W{x}", width, width)
    w.linear(f"{decoder}.multi_head_combine", width, width, True)
    w[f"{decoder}.multi_head_combine.weight"] *= 0.2  # scores that saturate would tie


def random_weights(embed_dim: int, layers: int, feedforward: int, seed: int = 0, tracked=False):
    """A state dict with the names and shapes of POMO's CVRP checkpoints."""
    w = _Weights(seed)
    w.linear("encoder.embedding_depot", embed_dim, 2, True)
    w.linear("encoder.embedding_node", embed_dim, 3, True)
    _pomo_encoder(w, ReferencePOMO, embed_dim, layers, feedforward, tracked)
    w.linear("decoder.Wq_last", embed_dim, embed_dim + 1)
    _pomo_decoder(w, "decoder", embed_dim)
    return dict(w)


def random_tsp_weights(embed_dim: int, layers: int, feedforward: int):
    """A state dict with the names and shapes of POMO's TSP checkpoints."""
    w = _Weights(0)
    w.linear("encoder.embedding", embed_dim, 2, True)
    _pomo_encoder(w, ReferenceTSP, embed_dim, layers, feedforward, False)
    w.linear("decoder.Wq_first", embed_dim, embed_dim)
    w.linear("decoder.Wq_last", embed_dim, embed_dim)
    _pomo_decoder(w, "decoder", embed_dim)
    return dict(w)


def random_first_release(problem: str, embed_dim: int, layers: int, feedforward: int):
    """A state dict with the names and shapes of POMO's first release."""
    w, decoder = _Weights(0), ReferenceFirstRelease.decoder
    if problem == "cvrp":
        w.linear("encoder.embedding_depot", embed_dim, 2, True)
        w.linear("encoder.embedding_node", embed_dim, 3, True)
        w.linear(f"{decoder}.Wq", embed_dim, 2 * embed_dim + 1)
    else:
        w.linear("encoder.embedding", embed_dim, 2, True)
        for x in ("graph", "first", "last"):
            w.linear(f"{decoder}.Wq_{x}", embed_dim, embed_dim)
    _pomo_encoder(w, ReferenceFirstRelease, embed_dim, layers, feedforward, True)
    _pomo_decoder(w, decoder, embed_dim)
    return dict(w)


def random_kool(problem: str, embed_dim=32, layers=2, feedforward=48, heads=4, tracked=True):
    """A state dict with the names and shapes of Kool's checkpoints."""
    w, depth = _Weights(0), embed_dim // heads
    depot, numbers = problem != "tsp", {"tsp": 2, "pctsp": 4}.get(problem, 3)
    if depot:
        w.linear("init_embed_depot", embed_dim, 2, True)
    else:
        w["W_placeholder"] = w.random(2 * embed_dim)
    w.linear("init_embed", embed_dim, numbers, True)
    if problem == "sdvrp":
        w.linear("project_node_step", 3 * embed_dim, 1)
    for i in range(layers):
        name = f"embedder.layers.{i}"
        for x in ("query", "key", "val"):
            w[f"{name}.0.module.W_{x}"] = embed_dim**-0.5 * w.random(heads, embed_dim, depth)
        w[f"{name}.0.module.W_out"] = embed_dim**-0.5 * w.random(heads, depth, embed_dim)
        w.norm(f"{name}.1.normalizer", embed_dim, tracked)
        w.linear(f"{name}.2.module.0", feedforward, embed_dim, True)
        w.linear(f"{name}.2.module.2", embed_dim, feedforward, True)
        w.norm(f"{name}.3.normalizer", embed_dim, tracked)
    w.linear("project_node_embeddings", 3 * embed_dim, embed_dim)
    w.linear("project_fixed_context", embed_dim, embed_dim)
    columns = embed_dim + 1 if depot else 2 * embed_dim
    w.linear("project_step_context", embed_dim, columns)
    w.linear("project_out", embed_dim, embed_dim)
    w["project_out.weight"] *= 0.2
    return dict(w)
