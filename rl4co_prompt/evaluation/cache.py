"""References that were found before, in one SQLite file."""

import json
import os
import sqlite3

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rl4co_prompt.evaluation.problem import fault
from rl4co_prompt.tasks.instance import Instance, Routes

VARIABLE = "RL4CO_PROMPT_CACHE"
PATIENCE = 60.0  # seconds to wait for another process that writes

_COLUMNS = ["digest", "solver", "cost", "routes", "seconds"]
_TABLE = """CREATE TABLE IF NOT EXISTS reference (
    digest TEXT, solver TEXT, cost REAL, routes TEXT, seconds REAL, PRIMARY KEY (digest, solver)
)"""


class Cache:
    """Routes by instance and solver; threads and processes may share the file.

    Args:
        path: of the file; by default ``references.sqlite`` in the folder that the variable
            RL4CO_PROMPT_CACHE names, or in ``~/.cache/rl4co_prompt``.
    """

    def __init__(self, path: str | Path | None = None):
        self.path = _default_path() if path is None else Path(path).expanduser()
        with self._open():  # a wrong file is told now, not after the first solve
            pass

    def find(self, instance: Instance, key: str) -> tuple[list[list[int]], float] | None:
        """Routes and the seconds they took; None where there are none that fit the instance."""
        with self._open() as connection:
            row = connection.execute(
                "SELECT routes, seconds FROM reference WHERE digest = ? AND solver = ?",
                (instance.digest, key),
            ).fetchone()
        return None if row is None else _checked(instance, *row)

    def store(self, instance: Instance, key: str, routes: Routes, seconds: float) -> None:
        """Keep routes, in place of any kept before."""
        cost = float(instance.cost(routes))
        entry = (instance.digest, key, cost, json.dumps(routes), seconds)
        with self._open() as connection:
            connection.execute("INSERT OR REPLACE INTO reference VALUES (?, ?, ?, ?, ?)", entry)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection for one task, so that no thread waits for another's."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=PATIENCE)) as connection, connection:
                tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
                if not tables:
                    connection.execute(_TABLE)
                elif _columns(connection) != _COLUMNS:
                    raise self._wrong()
                yield connection
        except sqlite3.OperationalError as error:
            raise OSError(
                f"The cache {self.path} can't be used: {error}; set {VARIABLE} to another folder."
            ) from None
        except sqlite3.DatabaseError:
            raise self._wrong() from None

    def _wrong(self) -> ValueError:
        return ValueError(f"{self.path} is no cache of references; delete it or give another path.")


def _default_path() -> Path:
    folder = os.environ.get(VARIABLE) or "~/.cache/rl4co_prompt"
    return Path(folder).expanduser() / "references.sqlite"


def _columns(connection: sqlite3.Connection) -> list[str]:
    return [row[1] for row in connection.execute("PRAGMA table_info(reference)")]


def _checked(
    instance: Instance, text: object, seconds: object
) -> tuple[list[list[int]], float] | None:
    """What an entry holds, unless someone changed it."""
    try:
        routes = [[int(customer) for customer in route] for route in json.loads(str(text))]
        found = float(str(seconds))
    except (TypeError, ValueError):
        return None
    return (routes, found) if fault(instance, routes) is None else None
