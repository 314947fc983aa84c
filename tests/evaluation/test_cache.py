import sqlite3
import threading

import pytest

from rl4co_prompt.evaluation.cache import Cache
from tests.evaluation.small import small_instance


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "references.sqlite"


def singles(instance):
    return [[customer] for customer in range(1, instance.num_customers + 1)]


def test_what_is_stored_is_found_by_a_later_cache(path):
    instance = small_instance()
    Cache(path).store(instance, "hgs 5.0 s", singles(instance), 4.5)

    assert Cache(path).find(instance, "hgs 5.0 s") == (singles(instance), 4.5)


def test_other_solvers_and_other_instances_find_nothing(path):
    cache, instance = Cache(path), small_instance()
    cache.store(instance, "hgs 5.0 s", singles(instance), 4.5)

    assert cache.find(instance, "hgs 10.0 s") is None
    assert cache.find(small_instance(seed=1), "hgs 5.0 s") is None
    assert cache.find(small_instance(rounding="nearest"), "hgs 5.0 s") is None


def test_the_name_of_an_instance_does_not_matter(path):
    cache = Cache(path)
    cache.store(small_instance(), "key", singles(small_instance()), 1.0)

    assert cache.find(small_instance(name="other"), "key") is not None


@pytest.mark.parametrize(
    "routes", ["[[1, 2]]", "[[1, 2], [3", "7", '{"a": 1}', '[["x"]]', "[[null]]", None]
)
def test_an_entry_that_does_not_fit_its_instance_is_ignored(path, routes):
    cache, instance = Cache(path), small_instance(3)
    cache.store(instance, "key", singles(instance), 1.0)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE reference SET routes = ?", (routes,))

    assert cache.find(instance, "key") is None


def test_a_newer_entry_replaces_the_older(path):
    cache, instance = Cache(path), small_instance(3)
    cache.store(instance, "key", singles(instance), 1.0)
    cache.store(instance, "key", [[1, 2], [3]], 2.0)

    assert cache.find(instance, "key") == ([[1, 2], [3]], 2.0)


def test_the_cost_can_be_read_with_any_sqlite_tool(path):
    instance = small_instance(3, rounding="nearest")
    Cache(path).store(instance, "key", singles(instance), 1.0)

    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT digest, solver, cost FROM reference").fetchall()
    assert rows == [(instance.digest, "key", instance.cost(singles(instance)))]


def test_writers_at_the_same_time_lose_nothing(path):
    instances = [small_instance(4, seed) for seed in range(24)]

    def write(part):
        cache = Cache(path)
        for instance in part:
            cache.store(instance, "key", singles(instance), 1.0)

    threads = [threading.Thread(target=write, args=(instances[i::3],)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(Cache(path).find(instance, "key") for instance in instances)


def test_a_cache_that_is_deleted_underway_begins_anew(path):
    cache, instance = Cache(path), small_instance(3)
    path.unlink()
    cache.store(instance, "key", singles(instance), 1.0)

    assert cache.find(instance, "key") is not None


def test_another_file_is_refused_by_name(path):
    path.parent.mkdir()
    path.write_text("Not a database, though long enough to have a header. " * 10)

    with pytest.raises(ValueError, match=r"references\.sqlite is no cache of references"):
        Cache(path)


def test_a_database_of_another_kind_is_refused_and_left_alone(path):
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE reference (id INTEGER)")
    before = path.read_bytes()

    with pytest.raises(ValueError, match=r"references\.sqlite is no cache of references"):
        Cache(path)
    assert path.read_bytes() == before


def test_a_folder_can_not_be_the_file(tmp_path):
    with pytest.raises(OSError, match="can't be used"):
        Cache(tmp_path)


def test_the_default_file_follows_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("RL4CO_PROMPT_CACHE", str(tmp_path / "here"))
    assert Cache().path == tmp_path / "here" / "references.sqlite"

    monkeypatch.delenv("RL4CO_PROMPT_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Cache().path == tmp_path / ".cache" / "rl4co_prompt" / "references.sqlite"
