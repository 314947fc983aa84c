"""Whatever a user has, as a list of instances."""

import csv
import re
import warnings

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensordict import TensorDict

from rl4co_prompt.tasks.env import read_npz
from rl4co_prompt.tasks.files import read_text
from rl4co_prompt.tasks.instance import Instance, as_number
from rl4co_prompt.tasks.vrplib import read_vrp

if TYPE_CHECKING:
    import pandas

LeftOut = tuple[str, str]  # the name of an instance, and why it can't be used

_READERS = ".vrp, .csv or .npz"
_FIELDS = {"depot", "customers", "locs", "demand", "capacity", "name", "reference", "hgs_cost"}
_CONSTRAINT = re.compile(
    r"\btw|time(?!stamp)|window|ready|\bdue|earliest|latest|service|pick.?up|backhaul|deadline"
    r"|duration|open.route|distance.limit|\bskill"
)  # in names that RL4CO and common tables give to what the model would ignore
_SEPARATORS = ",;\t"


def read_instances(
    x: Any, capacity: float | None = None, left_out: list[LeftOut] | None = None
) -> list[Instance]:
    """Instances from files, folders, tables, arrays or TensorDicts, or a list of such.

    Args:
        capacity: of what does not state it.
        left_out: takes what a folder or an .npz file holds beside good instances; None raises.
    """
    if isinstance(x, Instance):
        return [x]
    if isinstance(x, str | Path):
        return _from_path(Path(x), capacity, left_out)
    if isinstance(x, TensorDict):
        return _from_tensordict(x, capacity)
    if isinstance(x, Mapping):
        return _from_mapping(_with_capacity(x, capacity))
    if _is_table(x):
        return [_from_table(_columns(x), capacity, "table")]
    if isinstance(x, tuple) and len(x) == 4 and not any(map(_is_instance, x)):
        return _from_mapping(
            dict(zip(("depot", "customers", "demand", "capacity"), x, strict=True))
        )
    if isinstance(x, list | tuple):
        return [instance for part in x for instance in read_instances(part, capacity)]
    raise TypeError(
        f"Can't solve a {type(x).__name__}; give a {_READERS} file, a folder, a table of x, y, "
        "demand, a TensorDict, or a mapping or tuple of depot, customers, demand and capacity."
    )


def _is_instance(x: Any) -> bool:
    """Whether it is an instance, or a collection of them, by itself; an array is not."""
    return isinstance(x, str | Path | Instance | TensorDict | Mapping) or _is_table(x)


def is_single(x: Any) -> bool:
    """Whether the input is one instance by its kind, not a collection that may hold one."""
    if isinstance(x, str | Path):
        return Path(x).suffix.lower() in (".vrp", ".csv") and not Path(x).is_dir()
    return isinstance(x, Instance) or _is_table(x)


def vrp_files(folder: Path) -> list[Path]:
    """The .vrp files of a folder, by name."""
    files = (file for file in folder.iterdir() if file.suffix.lower() == ".vrp")
    return sorted(file for file in files if file.is_file() and not file.name.startswith("."))


def _from_path(
    path: Path, capacity: float | None, left_out: list[LeftOut] | None
) -> list[Instance]:
    if path.is_dir():
        files = vrp_files(path)
        if not files:
            raise ValueError(f"There is no .vrp file in {path}.")
        return [i for file in files for i in _read(partial(read_vrp, file), file.name, left_out)]
    if not path.is_file():
        raise FileNotFoundError(f"No file or folder at {path}.")
    suffix = path.suffix.lower()
    if suffix == ".npz":
        arrays = _with_capacity(read_npz(path), capacity)
        return _from_arrays(_unshared(arrays, path), path.stem, left_out)
    if suffix == ".csv":
        return [_from_table(_read_csv(path), capacity, str(path))]
    if suffix == ".vrp":
        return [read_vrp(path)]
    raise ValueError(f"{path} has the unknown ending {path.suffix!r}; expected {_READERS}.")


def _read(
    read: Callable[[], Instance], name: str, left_out: list[LeftOut] | None
) -> list[Instance]:
    """The instance, or none and a note why."""
    try:
        return [read()]
    except (ValueError, OSError) as error:
        if left_out is None:
            raise
        left_out.append((name, str(error)))
        return []


def _with_capacity(fields: Mapping[str, Any], capacity: float | None) -> Mapping[str, Any]:
    return fields if capacity is None or "capacity" in fields else {**fields, "capacity": capacity}


def _from_mapping(x: Mapping[str, Any]) -> list[Instance]:
    _refuse_constraints(map(str, x), "The mapping")
    unknown = sorted(map(str, set(x) - _FIELDS))
    if unknown:
        raise ValueError(
            f"The mapping has {', '.join(unknown)}, which is no part of a CVRP; it may have "
            f"{', '.join(sorted(_FIELDS))}."
        )
    instances = _from_arrays(x)
    for instance in instances:
        demand, capacity = instance.demand, instance.capacity
        if capacity > 1 and demand.max() <= 1 and (demand % 1).any():
            warnings.warn(
                f"The demands of {instance.name} are at most 1 and the capacity is {capacity:g}; "
                "if they are shares of it, as in RL4CO, give capacity=1.",
                stacklevel=4,
            )
            break
    return instances


def _from_arrays(
    arrays: Mapping[str, Any], name: str = "instance", left_out: list[LeftOut] | None = None
) -> list[Instance]:
    """``depot``, ``customers`` (or ``locs``), ``demand``, ``capacity``; one instance or several."""
    _refuse_constraints(arrays, name)
    name = arrays["name"] if isinstance(arrays.get("name"), str) else name
    named = {key: _as_array(arrays[key]) for key in arrays if key != "name"}
    if "customers" not in named and "locs" in named:
        named["customers"] = named["locs"]
    missing = [k for k in ("depot", "customers", "demand", "capacity") if k not in named]
    if missing:
        raise ValueError(
            f"{name} lacks {', '.join(missing)}; give depot, customers, demand and capacity."
        )
    customers, demand = named["customers"], named["demand"]
    if demand.ndim == 1 and customers.ndim == 2:
        customers, demand = customers[None], demand[None]
    if demand.ndim != 2 or customers.shape != (*demand.shape, 2):
        raise ValueError(
            f"{name}: customers must be [n, 2] and demand [n], or both with a leading axis of "
            f"instances; got {list(named['customers'].shape)} and {list(named['demand'].shape)}."
        )
    count = len(demand)
    try:
        depot = np.broadcast_to(named["depot"].reshape(-1, 2), (count, 2))
        capacity = np.broadcast_to(named["capacity"].reshape(-1), (count,))
    except ValueError:
        raise ValueError(
            f"{name}: depot must be [2] and capacity a number, or one of each per instance."
        ) from None
    reference, source = _reference(named, count, name)
    names = [name if count == 1 else f"{name}-{i}" for i in range(count)]

    def made(i: int) -> Instance:
        return Instance(
            coordinates=np.concatenate((depot[i][None], customers[i])),
            demand=demand[i],
            capacity=capacity[i],
            name=names[i],
            reference=None if reference is None else float(reference[i]),
            source=source,
        )

    return [x for i in range(count) for x in _read(partial(made, i), names[i], left_out)]


def _reference(
    named: Mapping[str, np.ndarray], count: int, name: str
) -> tuple[np.ndarray | None, str]:
    for key in ("reference", "hgs_cost"):
        if key in named:
            if named[key].size != count:
                raise ValueError(f"{name}: {key} must have one cost per instance.")
            try:
                return named[key].reshape(count).astype(float), key
            except (TypeError, ValueError):
                raise ValueError(f"{name}: {key} must be numbers.") from None
    return None, ""


def _from_tensordict(td: TensorDict, capacity: float | None) -> list[Instance]:
    """RL4CO's form, before or after a reset: demands are shares of the capacity, or whole."""
    td = (td if td.ndim else td[None]).flatten().cpu()
    missing = [key for key in ("locs", "demand") if key not in td.keys()]  # noqa: SIM118
    if missing:
        raise ValueError(f"The TensorDict lacks {', '.join(missing)}; it is no CVRP.")
    _refuse_constraints(td.keys(), "The TensorDict")
    demand, locs = td["demand"], td["locs"]
    if "depot" in td.keys() and locs.shape[-2] == demand.shape[-1]:  # noqa: SIM118
        depot, customers = td["depot"], locs
    elif locs.shape[-2] == demand.shape[-1] + 1:
        depot, customers = locs[:, 0], locs[:, 1:]
    else:
        raise ValueError("The TensorDict has no depot.")
    given = td.get("capacity", None)
    found = []
    for i in range(len(td)):
        stated = capacity if given is None else float(given[i].reshape(-1)[0])
        whole, unit = _whole(demand[i].numpy(), stated)
        arrays = {"depot": depot[i], "customers": customers[i], "demand": whole, "capacity": unit}
        if "reference" in td.keys():  # noqa: SIM118
            arrays["reference"] = td["reference"][i]
        found += _from_arrays(arrays, f"instance-{i}")
    return found


def _whole(demand: np.ndarray, capacity: float | None) -> tuple[np.ndarray, float]:
    """Demands and capacity in one unit; whole demands above 1 are no shares."""
    if not (demand.max(initial=0) > 1 and (demand % 1 == 0).all()):
        return _undivided(demand, capacity)
    if capacity is None:
        raise ValueError(
            f"The TensorDict has whole demands up to {demand.max():g}, but no capacity; add it, "
            "give capacity=, or divide the demands by it."
        )
    return demand, capacity


def _undivided(shares: np.ndarray, capacity: float | None) -> tuple[np.ndarray, float]:
    """Whole demands and their capacity behind float32 shares; the shares where there are none."""
    for unit in range(1, 4097) if capacity is None else [capacity]:
        demand = shares.astype(np.float64) * unit
        near = np.abs(demand - demand.round()).max(initial=0) < 1e-6 * max(unit, 100)
        if near and ((demand.round() > 0) == (shares > 0)).all():
            return demand.round(), unit
    return shares, 1.0


def _is_table(x: Any) -> bool:
    return hasattr(x, "columns") and hasattr(x, "iloc")


def _columns(table: "pandas.DataFrame") -> dict[str, list]:
    names = _unique([str(column).strip().lower() for column in table.columns], "table")
    return {name: _as_array(table.iloc[:, i].to_numpy()).tolist() for i, name in enumerate(names)}


def _from_table(columns: dict[str, list], capacity: float | None, name: str) -> Instance:
    """Columns x, y, demand, the depot in the first row; capacity in a column or an argument."""
    _refuse_constraints(columns, name)
    missing = [key for key in ("x", "y", "demand") if key not in columns]
    if missing:
        raise ValueError(
            f"{name} lacks the column {', '.join(missing)}; a table has x, y, demand, and the "
            "depot in its first row."
        )
    if not columns["x"]:
        raise ValueError(f"{name} has no rows.")
    stated = {_cell(value) for value in columns.get("capacity", []) if not _is_blank(value)}
    if capacity is None or stated:
        if len(stated) != 1:
            raise ValueError(
                f"{name} does not say how much a vehicle carries; give capacity=, --capacity, or a "
                "column 'capacity' with one value."
            )
        (carried,) = stated
    else:
        carried = capacity
    depot, *demand = columns["demand"]
    if not _is_blank(depot) and as_number(str(depot).strip()) != 0:
        raise ValueError(f"{name}: the first row is the depot, so its demand must be 0.")
    xy = list(zip(columns["x"], columns["y"], strict=True))
    instance = Instance(_as_array(xy), _as_array(demand), carried, name)  # type: ignore[arg-type]
    return replace(instance, name=Path(name).stem)


def _is_blank(value: Any) -> bool:
    """An empty cell: NaN in pandas, no text in a file."""
    return value is None or str(value).strip().lower() in ("", "nan", "<na>")


def _cell(value: Any) -> float | str:
    number = as_number(str(value).strip())
    return str(value) if number is None else number


def _unique(names: list[str], where: str) -> list[str]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{where} has the column {name!r} twice.")
    return names


def _refuse_constraints(keys: Iterable[str], name: str) -> None:
    for key in keys:
        if _CONSTRAINT.search(key.lower().replace("_", " ")):
            raise ValueError(
                f"{name} has {key}, which is not part of a plain CVRP; delete it if it is no "
                "constraint."
            )


def _unshared(arrays: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """As :meth:`MultiTaskCVRPEnv.load_data`: demands up to 1 that are not whole are shares."""
    try:
        demand = np.asarray(arrays["demand"], float)
        capacity = np.asarray(arrays["capacity"], float).reshape(-1, 1)
    except (KeyError, TypeError, ValueError):
        return arrays  # told where all fields are checked
    shares = demand if demand.ndim == 2 else demand[None]
    if not (shares.size and shares.max() <= 1 + 1e-5 and (shares % 1).any()):
        return arrays
    if len(capacity) not in (1, len(shares)) or not (np.isfinite(capacity) & (capacity > 0)).all():
        return arrays
    if (capacity != 1).any():
        warnings.warn(
            f"The demands of {path} are at most 1 and the capacity is {capacity.max():g}; they are "
            "taken as shares of it, as in RL4CO.",
            stacklevel=4,
        )
    units = np.broadcast_to(capacity, (len(shares), 1))
    pairs = [_undivided(row, float(unit)) for row, (unit,) in zip(shares, units, strict=True)]
    found = np.stack([row for row, _ in pairs]).reshape(demand.shape)
    return {**arrays, "demand": found, "capacity": np.array([unit for _, unit in pairs])}


def _read_csv(path: Path) -> dict[str, list]:
    """Columns by name; cells are set apart by commas, semicolons or tabs."""
    lines = read_text(path).splitlines()
    first = next((line for line in lines if line.strip()), "")
    separator = max(_SEPARATORS, key=first.count)
    try:
        found = [row for row in csv.reader(lines, delimiter=separator) if any(row)]
    except csv.Error as error:
        raise ValueError(f"{path} can't be read as a table: {error}.") from None
    head, *rows = found or [[]]
    if head and all(as_number(cell.strip()) is not None for cell in head):
        raise ValueError(f"{path} has no header; its first line must name x, y and demand.")
    if any(len(row) != len(head) for row in rows):
        raise ValueError(f"{path}: every row must have {len(head)} cells, as the first has.")
    names = _unique([name.strip().lower() for name in head], str(path))
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def _as_array(values: Any) -> np.ndarray:
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values)
        small = array.dtype.kind == "f" and array.itemsize < 8
        return array.astype(str).astype(float) if small else array
    except ValueError:
        raise ValueError("Arrays must be rectangular; got rows of different lengths.") from None
