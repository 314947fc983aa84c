"""CVRPLIB's text formats: .vrp instances and .sol solutions.

The ``vrplib`` package drops node numbers, so it can't tell a file whose sections disagree about
them; this reader checks every number and refuses what the model would ignore.
"""

import re
import warnings

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from rl4co_prompt.tasks.files import read_text, write_text
from rl4co_prompt.tasks.instance import Instance, Routes, as_number

_ROUNDING = {"EUC_2D": "nearest", "CEIL_2D": "up", "FLOOR_2D": "down", "EXACT_2D": "none"}
_TYPE = {rounding: kind for kind, rounding in _ROUNDING.items()}
_LABELS = {
    "NAME",
    "COMMENT",
    "TYPE",
    "DIMENSION",
    "CAPACITY",
    "VEHICLES",
    "EDGE_WEIGHT_TYPE",
    "EDGE_WEIGHT_FORMAT",
    "NODE_COORD_TYPE",
    "DISPLAY_DATA_TYPE",
}
_SECTIONS = ("NODE_COORD_SECTION", "DEMAND_SECTION", "DEPOT_SECTION")
_KNOWN_VALUE = re.compile(
    r"(?<![\w-])(?<!not\s)(?:optimal|best)(?:\sknown)?(?:\s(?:value|solution|cost))?\s*:\s*"
    r"(\S+)[^\S\n]*([^\s(\[]?)",
    re.I,
)  # the number, and how the line goes on
_COST = re.compile(r"^\s*cost\s*:?\s*(\S+)\s*$", re.I | re.M)
_ROUTE = re.compile(r"^\s*route\s*#?\s*\d+\s*:(.*)$", re.I | re.M)


def read_vrp(path: str | Path) -> Instance:
    """Read a CVRP instance; its best-known cost from the .sol beside it or from its comment."""
    path = Path(path)
    instance = parse_vrp(read_text(path), str(path))
    beside = path.with_suffix(".sol")
    if not beside.is_file():
        return instance
    try:
        cost, routes = read_sol(beside)
        wrong = instance.violation(routes) if routes else None
        if wrong is not None:
            raise ValueError(f"{beside} is of another instance: {wrong}.")
        sound = bool(routes) and abs(instance.cost(routes) - cost) < 0.01
        if routes and not sound:
            warnings.warn(
                f"The routes of {beside} do not have the cost it states; the stated {_plain(cost)} "
                "is taken as the best known one.",
                stacklevel=2,
            )
        return replace(
            instance,
            reference=cost,
            source=beside.name,
            reference_routes=routes if sound else None,
        )
    except (ValueError, OSError) as error:
        warnings.warn(f"The solution beside {path} is not used: {error}", stacklevel=2)
        return instance


def parse_vrp(text: str, where: str = "The text") -> Instance:
    """A CVRP instance from the text of a .vrp file."""
    labels, sections = _split(text, where)
    _check_labels(labels, where)
    size = _whole(labels["DIMENSION"], where, "DIMENSION")
    nodes = _rows(sections["NODE_COORD_SECTION"], 3, where, "NODE_COORD_SECTION")
    demands = _rows(sections["DEMAND_SECTION"], 2, where, "DEMAND_SECTION")
    if len(nodes) != size or demands.keys() != nodes.keys():
        raise ValueError(
            f"{where}: DIMENSION is {size}, but {len(nodes)} nodes have coordinates and "
            f"{len(demands)} a demand; the sections must list the same {size} nodes."
        )
    depot = _depot(sections["DEPOT_SECTION"], nodes, where)
    if demands[depot][0]:
        raise ValueError(f"{where}: the depot, node {depot}, has a demand.")
    customers = sorted(node for node in nodes if node != depot)
    reference = _known_value(labels.get("COMMENT", ""))
    vehicles = labels.get("VEHICLES")
    # Messages name the file, tables the instance.
    instance = Instance(
        coordinates=np.array([nodes[node] for node in (depot, *customers)]).reshape(-1, 2),
        demand=np.array([demands[node][0] for node in customers]),
        capacity=_number(labels["CAPACITY"], where, "CAPACITY"),
        name=where,
        rounding=_ROUNDING[labels["EDGE_WEIGHT_TYPE"].upper()],
        reference=reference,
        source="the file's comment" if reference else "",
        max_routes=None if vehicles is None else _whole(vehicles, where, "VEHICLES"),
    )
    return replace(instance, name=labels.get("NAME") or Path(where).stem)


def read_sol(path: str | Path) -> tuple[float, list[list[int]]]:
    """Stated cost and routes of a .sol file."""
    text = read_text(Path(path))
    stated = _COST.search(text)
    cost = _positive(stated[1]) if stated else None
    if cost is None:
        raise ValueError(f"{path} states no cost; expected a line such as 'Cost 784'.")
    try:
        routes = [[_customer(x) for x in line.split()] for line in _ROUTE.findall(text)]
    except ValueError:
        raise ValueError(f"{path}: a route holds something that is no customer number.") from None
    return cost, routes


def write_vrp(instance: Instance, path: str | Path) -> Path:
    """Write an instance as CVRPLIB does, the depot as node 1."""
    known = "" if instance.reference is None else f"Best value: {_plain(instance.reference)}"
    labels = {
        "NAME": _one_line(instance.name),
        "COMMENT": known,
        "EDGE_WEIGHT_TYPE": _TYPE[instance.rounding],
        "CAPACITY": _plain(instance.capacity),
    }
    if instance.max_routes is not None:
        labels["VEHICLES"] = str(instance.max_routes)
    return write_text(path, vrp_text(labels, instance.coordinates, instance.demand.tolist()))


def vrp_text(labels: Mapping[str, str], xy: np.ndarray, demand: Sequence[float]) -> str:
    """A .vrp file.

    Args:
        labels: beside TYPE and DIMENSION.
        xy: [n + 1, 2], the depot first; it is node 1.
        demand: [n].
    """
    stated = {"TYPE": "CVRP", "DIMENSION": str(len(xy))}
    lines = [
        *(f"{label} : {value}" for label, value in {**labels, **stated}.items()),
        "NODE_COORD_SECTION",
        *(f"{i} {_plain(x)} {_plain(y)}" for i, (x, y) in enumerate(xy, 1)),
        "DEMAND_SECTION",
        *(f"{i} {_plain(d)}" for i, d in enumerate([0, *demand], 1)),
        "DEPOT_SECTION",
        "1",
        "-1",
        "EOF",
    ]
    return "\n".join(lines) + "\n"


def write_sol(routes: Routes, cost: float, path: str | Path) -> Path:
    """Write routes as CVRPLIB does."""
    lines = [f"Route #{i}: {' '.join(map(str, route))}" for i, route in enumerate(routes, 1)]
    return write_text(path, "\n".join([*lines, f"Cost {_plain(cost)}"]) + "\n")


def _split(text: str, where: str) -> tuple[dict[str, str], dict[str, list[list[str]]]]:
    """Labelled values, and the words of each section's lines."""
    labels: dict[str, str] = {}
    sections: dict[str, list[list[str]]] = {}
    rows: list[list[str]] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        word = line.rstrip(" :\t").upper()
        if word == "EOF":
            break
        if not line:
            continue
        if word.endswith("_SECTION") and ":" not in word:
            if word not in _SECTIONS:
                raise ValueError(f"{where}: {word[:40]!r} is not part of a plain CVRP.")
            if word in sections:
                raise ValueError(f"{where} has two {word}s.")
            rows = sections.setdefault(word, [])
        elif ":" in line:
            label, value = (x.strip() for x in line.split(":", 1))
            if label.upper() == "COMMENT":  # may have several lines
                value = "\n".join([*labels.pop("COMMENT", "").splitlines(), value])
            if label.upper() in labels:
                raise ValueError(f"{where} states {label.upper()[:40]!r} twice.")
            labels[label.upper()] = value
            rows = None
        elif rows is not None:
            rows.append(line.split())
        else:
            raise ValueError(f"{where}: line {number} can't be read: {line[:40]!r}.")
    missing = [x for x in _SECTIONS if x not in sections]
    if missing:
        raise ValueError(f"{where} is not a CVRP file: it lacks {', '.join(missing)}.")
    return labels, sections


def _check_labels(labels: dict[str, str], where: str) -> None:
    """Refuse what is missing, and what would change which routes are allowed."""
    for label in ("DIMENSION", "CAPACITY", "EDGE_WEIGHT_TYPE"):
        if label not in labels:
            raise ValueError(f"{where} lacks {label}.")
    kind = labels.get("TYPE", "CVRP").upper()
    if kind != "CVRP":
        raise ValueError(f"{where} is of TYPE {kind[:40]!r}; only CVRP is solved.")
    if labels["EDGE_WEIGHT_TYPE"].upper() not in _ROUNDING:
        raise ValueError(
            f"{where}: EDGE_WEIGHT_TYPE {labels['EDGE_WEIGHT_TYPE'][:40]!r} is not supported; the "
            f"model needs points in the plane ({', '.join(_ROUNDING)})."
        )
    for label, value in labels.items():
        zero = label in ("DISTANCE", "SERVICE_TIME") and as_number(value) == 0
        if label not in _LABELS and not zero:
            raise ValueError(
                f"{where} states {label[:40]!r}, which is not part of a plain CVRP; delete the "
                "line if it is no constraint."
            )


def _rows(rows: list[list[str]], width: int, where: str, section: str) -> dict[int, list[float]]:
    """Numbers by node."""
    found: dict[int, list[float]] = {}
    for row in rows:
        if len(row) != width:
            raise ValueError(
                f"{where}: a line of {section} has {len(row)} numbers instead of {width}: "
                f"{' '.join(row)[:40]!r}."
            )
        node = _whole(row[0], where, section)
        if node in found:
            raise ValueError(f"{where}: {section} lists node {node} twice.")
        found[node] = [_number(x, where, section) for x in row[1:]]
    return found


def _depot(rows: list[list[str]], nodes: dict[int, list[float]], where: str) -> int:
    words = [word for row in rows for word in row]
    depots = words[: words.index("-1")] if "-1" in words else words
    if any(word != "-1" for word in words[len(depots) :]):
        raise ValueError(f"{where}: DEPOT_SECTION goes on after its end, -1.")
    if len(depots) != 1:
        raise ValueError(f"{where}: DEPOT_SECTION must name one depot, got {len(depots)}.")
    depot = _whole(depots[0], where, "DEPOT_SECTION")
    if depot not in nodes:
        raise ValueError(f"{where}: the depot, node {depot}, has no coordinates.")
    return depot


def _number(word: str, where: str, field: str) -> float:
    value = as_number(word)
    if value is None:
        raise ValueError(f"{where}: {field} holds {word[:40]!r}, which is no number.")
    return value


def _whole(word: str, where: str, field: str) -> int:
    value = _number(word, where, field)
    if value != int(value) or not 0 <= value < 2**53:
        raise ValueError(f"{where}: {field} holds {word[:40]!r}, which is no count.")
    return int(value)


def _known_value(comment: str) -> float | None:
    """The best-known cost that a comment states; a number of trucks is none."""
    known = _KNOWN_VALUE.search(comment)
    if known is None:
        return None
    word = known[1].rstrip(".,;)]")
    return _positive(word) if word != known[1] or not known[2] else None


def _positive(word: str) -> float | None:
    """A cost, or None where it is none."""
    value = as_number(word)
    return value if value is not None and value > 0 else None


def _customer(word: str) -> int:
    if not (word.isascii() and word.isdecimal()):
        raise ValueError
    return int(word)


def _plain(value: float) -> str:
    """Whole numbers without a point, others with all their digits."""
    value = float(value)
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _one_line(text: str) -> str:
    return " ".join(text.split())
