"""Damaged .vrp files: refused in one sentence, or read as another reader would read them.

The environment variable RL4CO_PROMPT_FUZZ sets the number of files for a longer campaign.
"""

import math
import os
import random
import re
import time
import unicodedata

from fractions import Fraction

from typer.testing import CliRunner

from rl4co_prompt import cli, save_backbone
from rl4co_prompt.inference.solver import Solver
from rl4co_prompt.tasks.vrplib import parse_vrp, read_vrp

FILES = int(os.environ.get("RL4CO_PROMPT_FUZZ", "3000"))

NUMBERS = [
    *("-1", "0", "-0", "1", "2", "3", "+5", "1.", ".5", "0.1", "1e1", "1e-1", "1E+2", "1e400"),
    *("1e-400", "1e12", "1e13", "1e99", "-1e12", "1e-99", "nan", "inf", "-inf", "NaN", "1_000"),
    *(
        "0x10",
        "1,5",
        "\u0663",
        "\uff15",
        "\u00b2",
        "\u00bd",
        "1-1",
        "-",
        "+",
        ".",
        "e",
        "1e",
        "007",
    ),
    *("4294967297", "9007199254740993", "9" * 18, "1" + "0" * 30, "9" * 400, "0.30000000000000004"),
    *("0." + "0" * 20 + "1", "0." + "0" * 30 + "1", "", "1 2", "-1 2"),
]
WORDS = [
    *("EOF", "DEMAND_SECTION", "NODE_COORD_SECTION", "DEPOT_SECTION", "TIME_WINDOW_SECTION"),
    *("EDGE_WEIGHT_SECTION", "BACKHAUL_SECTION", "_SECTION", "SECTION", "demand_section :"),
    *("DISTANCE : 100", "DISTANCE : 0", "SERVICE_TIME : 10", "VEHICLES : 2", "VEHICLES : 0"),
    *("CAPACITY : 7", "TYPE : VRPTW", "TYPE : CVRP", "EDGE_WEIGHT_TYPE : GEO", "DIMENSION : 4"),
    *("EDGE_WEIGHT_TYPE : CEIL_2D", "EDGE_WEIGHT_TYPE : FLOOR_2D", ": 5", "COMMENT : :", "x"),
    *("COMMENT : (Best value: 12)", "OPEN : 1", "-1", "1", "0 0", "1 0", "2 3", "2 3 4", "\ufeff"),
]
NAMES = [
    *("", "[/bold]", "[red]", ":smile:", "../../x", "a/b", "\x1b[31m", "n" * 300, "my_section"),
    *("EOF", "\\", "%s {}", "日本", "toy : 2", "nul\x07l"),
]
CHARACTERS = "0123456789-+.eE:_ \t\n\r\v\f\0\x1b\x1c\x85\u2028\u00a0abcS\u017f\u0663\ufeff#;,/'\""


def sound(rng):
    """The text of a small instance, in one of many spellings."""
    size = rng.randint(1, 12)
    first = rng.choice([1, 1, 1, 0, 5])
    nodes = list(range(first, first + size + 1))
    depot = rng.choice([nodes[0]] * 3 + nodes)
    capacity = rng.choice([10, 30, 100, 1000, 20_000, 123_456, 1.5])
    whole = rng.random() < 0.7
    scale = rng.choice([1, 100, 1000])

    def place():
        return (
            rng.randint(-scale, scale) if whole else round(rng.uniform(0, scale), rng.randint(0, 6))
        )

    def amount(node):
        if node == depot:
            return 0
        return rng.randint(0, int(capacity)) if capacity > 2 else rng.randint(0, 15) / 10

    labels = [
        f"NAME : toy-{size}",
        rng.choice(["COMMENT : small", "COMMENT : (No of trucks: 5, Optimal value: 784)"]),
        "TYPE : CVRP",
        f"DIMENSION : {size + 1}",
        f"EDGE_WEIGHT_TYPE : {rng.choice(['EUC_2D', 'EUC_2D', 'CEIL_2D', 'EXACT_2D'])}",
        f"CAPACITY : {capacity}",
        *rng.choice([[], [], ["VEHICLES : 3"], ["DISTANCE : 0"]]),
    ]
    coordinates = [f"{node} {place()} {place()}" for node in nodes]
    demands = [f"{node} {amount(node)}" for node in nodes]
    for block in (labels, coordinates, demands):
        if rng.random() < 0.15:
            rng.shuffle(block)
    ends = rng.choice([["-1", "EOF"], ["-1", "EOF"], ["-1"], ["EOF"], []])
    lines = [
        *labels,
        "NODE_COORD_SECTION",
        *coordinates,
        "DEMAND_SECTION",
        *demands,
        *("DEPOT_SECTION", str(depot), *ends),
    ]
    text = rng.choice(["\n", "\n", "\r\n"]).join(lines) + rng.choice(["\n", ""])
    if rng.random() < 0.1:
        text = text.lower()
    return text.replace(" : ", rng.choice([" : ", ": ", ":", "\t:\t"]))


def delete_line(rng, lines):
    del lines[rng.randrange(len(lines))]


def repeat_line(rng, lines):
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))


def swap_lines(rng, lines):
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]


def insert_words(rng, lines):
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(WORDS))


def replace_line(rng, lines):
    lines[rng.randrange(len(lines))] = rng.choice(WORDS)


def replace_number(rng, lines):
    i = rng.randrange(len(lines))
    found = list(re.finditer(r"\S*\d\S*", lines[i]))
    if found:
        number = rng.choice(found)
        lines[i] = lines[i][: number.start()] + rng.choice(NUMBERS) + lines[i][number.end() :]


def rename(rng, lines):
    lines[0] = f"NAME : {rng.choice(NAMES)}"


def cut(rng, lines):
    del lines[rng.randrange(1, len(lines) + 1) :]


def join(rng, lines):
    lines.extend(sound(rng).split("\n"))


def change_character(rng, lines):
    i = rng.randrange(len(lines))
    j = rng.randrange(len(lines[i]) + 1)
    lines[i] = lines[i][:j] + rng.choice(CHARACTERS) + lines[i][j + rng.randint(0, 1) :]


def delete_character(rng, lines):
    i = rng.randrange(len(lines))
    j = rng.randrange(len(lines[i]) + 1)
    lines[i] = lines[i][:j] + lines[i][j + 1 :]


DAMAGE = [
    *(delete_line, repeat_line, swap_lines, insert_words, replace_line, rename, cut, join),
    *([replace_number] * 4 + [change_character] * 4 + [delete_character] * 2),
]


def damaged(number):
    """The bytes of the file of that number, always the same."""
    rng = random.Random(number)
    lines = sound(rng).split("\n")
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 4])):
        rng.choice(DAMAGE)(rng, lines)
        lines = lines or [""]
    data = bytearray("\n".join(lines).encode())
    if data and rng.random() < 0.1:
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def decoded(data):
    return data.decode("utf-8-sig", errors="replace")


class UnclearError(Exception):
    """A text that means nothing, or more than one thing."""


def clear(condition, why):
    if not condition:
        raise UnclearError(why)


def number(word):
    """A number with the digits its double prints with."""
    clear(re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", word), word)
    clear(math.isfinite(float(word)), word)
    return Fraction(repr(float(word)))


def count(word):
    clear(number(word) == Fraction(word) and Fraction(word).denominator == 1, word)
    clear(Fraction(word) >= 0, word)
    return int(Fraction(word))


def meaning(text):
    """What a text says to a reader who takes nothing for granted."""
    lines = [line.strip() for line in text.splitlines()]
    ends = [i for i, line in enumerate(lines) if re.fullmatch(r"EOF[\s:]*", line, re.I)]
    labels, sections, section = {}, {}, None
    for line in lines[: ends[0] if ends else None]:
        title = re.fullmatch(r"(\w+_SECTION)[\s:]*", line, re.I)
        label = re.fullmatch(r"(\w+)\s*:(.*)", line)
        if title:
            section = title[1].upper()
            clear(section not in sections, "a section twice")
            sections[section] = []
        elif label:
            clear(label[1].upper() not in labels.keys() - {"COMMENT"}, "a label twice")
            labels[label[1].upper()] = label[2].strip()
            section = None
        elif line:
            clear(section, "a line of no section")
            sections[section].append(line.split())
    return interpreted(labels, sections)


def interpreted(labels, sections):
    """Numbers by node, from the words of labels and sections."""
    for limit in ("DISTANCE", "SERVICE_TIME"):
        clear(number(labels.pop(limit, "0")) == 0, limit)
    free = {"NAME", "COMMENT", "EDGE_WEIGHT_FORMAT", "NODE_COORD_TYPE", "DISPLAY_DATA_TYPE"}
    known = free | {"TYPE", "DIMENSION", "EDGE_WEIGHT_TYPE", "CAPACITY", "VEHICLES"}
    clear(labels.keys() <= known, "a label")
    clear(labels.get("TYPE", "CVRP").upper() == "CVRP", "the type")
    clear({"DIMENSION", "CAPACITY", "EDGE_WEIGHT_TYPE"} <= labels.keys(), "a label less")
    wanted = {"NODE_COORD_SECTION", "DEMAND_SECTION", "DEPOT_SECTION"}
    clear(sections.keys() == wanted, "the sections")
    tables = {}
    for title, width in (("NODE_COORD_SECTION", 3), ("DEMAND_SECTION", 2)):
        clear(all(len(row) == width for row in sections[title]), "a row")
        tables[title] = {count(row[0]): [number(x) for x in row[1:]] for row in sections[title]}
        clear(len(tables[title]) == len(sections[title]), "a node twice")
    points, demands = tables["NODE_COORD_SECTION"], tables["DEMAND_SECTION"]
    clear(points.keys() == demands.keys(), "the nodes")
    clear(len(points) == count(labels["DIMENSION"]), "the dimension")
    depot, *end = [word for row in sections["DEPOT_SECTION"] for word in row] or ["none"]
    clear(all(word == "-1" for word in end), "the depots")
    clear(count(depot) in points and demands[count(depot)] == [0], "the depot")
    customers = sorted(points.keys() - {count(depot)})
    return {
        "points": [points[node] for node in (count(depot), *customers)],
        "demand": [demands[node][0] for node in customers],
        "capacity": number(labels["CAPACITY"]),
        "rounding": labels["EDGE_WEIGHT_TYPE"].upper(),
        "vehicles": count(labels["VEHICLES"]) if "VEHICLES" in labels else None,
    }


ROUNDED = {
    "EUC_2D": lambda length: math.floor(length + 0.5),
    "CEIL_2D": math.ceil,
    "FLOOR_2D": math.floor,
    "EXACT_2D": lambda length: length,
}


def misread(instance, text):
    """Where an instance differs from its text; empty if nowhere."""
    try:
        means = meaning(text)
    except UnclearError as why:
        return f"read in spite of {why}"
    kinds = {"nearest": "EUC_2D", "up": "CEIL_2D", "down": "FLOOR_2D", "none": "EXACT_2D"}
    found = {
        "points": [[Fraction(repr(x)) for x in xy] for xy in instance.coordinates.tolist()],
        "demand": [Fraction(repr(x)) for x in instance.demand.tolist()],
        "capacity": Fraction(repr(instance.capacity)),
        "rounding": kinds[instance.rounding],
        "vehicles": instance.max_routes,
    }
    return ", ".join(key for key in means if means[key] != found[key])


def unserved(solution, text):
    """What is wrong with routes by the numbers of the text; empty if nothing."""
    means = meaning(text)
    size = len(means["demand"])
    visits = sorted(customer for route in solution.routes for customer in route)
    if visits != list(range(1, size + 1)):
        return "visits"
    if any(sum(means["demand"][i - 1] for i in r) > means["capacity"] for r in solution.routes):
        return "load"
    xy = [[float(x) for x in point] for point in means["points"]]
    legs = [(a, b) for r in solution.routes for a, b in zip((0, *r), (*r, 0), strict=True)]
    cost = sum(ROUNDED[means["rounding"]](math.dist(xy[a], xy[b])) for a, b in legs)
    return "" if math.isclose(cost, solution.cost, rel_tol=1e-9) else f"cost {cost}"


def read(text):
    """The instance, or the error that says why not."""
    try:
        return parse_vrp(text, "toy.vrp")
    except Exception as error:
        return error


def unhelpful(error):
    """Why an error is no sentence for a user; empty if it is one."""
    told = str(error)
    if type(error) is not ValueError:
        return type(error).__name__
    if len(told.splitlines()) != 1 or len(told) > 400 or not told.endswith("."):
        return "no sentence"
    shown = all(unicodedata.category(letter) != "Cc" for letter in told)
    return "" if shown and told.startswith("toy.vrp") else "unreadable"


def test_an_undamaged_file_is_always_read():
    for seed in range(300):
        text = sound(random.Random(seed))
        found = read(text)

        assert not isinstance(found, Exception), found
        assert not misread(found, text), text


def test_a_damaged_file_is_refused_in_a_sentence_or_read_as_it_says():
    wrong, accepted = [], 0
    for i in range(FILES):
        text = decoded(damaged(i))
        begin = time.perf_counter()
        found = read(text)
        if time.perf_counter() - begin > 1:
            wrong.append((i, "slow"))
        refused = isinstance(found, Exception)
        accepted += not refused
        why = unhelpful(found) if refused else misread(found, text)
        if why:
            wrong.append((i, why, str(found)[:200] if refused else text))

    assert not wrong, f"{len(wrong)} of {FILES}, such as {wrong[:3]}"
    assert 0.05 * FILES < accepted < 0.95 * FILES


def test_what_is_read_from_a_damaged_file_is_solved_feasibly(backbone):
    texts = [decoded(damaged(i)) for i in range(FILES)]
    pairs = [(found, text) for text in texts if not isinstance(found := read(text), Exception)]
    chosen = pairs[::10]
    solver = Solver(backbone, progress=False)
    solutions = solver.solve([found for found, _ in chosen], num_prompts=1, augment=False)

    assert len(solutions) == len(chosen) > 0
    for solution, (_, text) in zip(solutions, chosen, strict=True):
        assert not unserved(solution, text), text


def test_the_command_line_never_ends_in_a_traceback(backbone, tmp_path):
    weights = save_backbone(backbone, tmp_path / "tiny.safetensors")
    path = tmp_path / "toy.vrp"
    wrong = []
    for i in range(max(10, FILES // 20)):
        path.write_bytes(damaged(i))
        done = CliRunner().invoke(cli.app, ["solve", str(path), "--weights", str(weights)])
        try:
            read_vrp(path)
            expected = 0
        except ValueError:
            expected = 1
        told = [line for line in done.stderr.splitlines() if not line.startswith("Note: ")]
        sentence = len(told) == 1 and told[0].startswith("Error: ") and told[0].endswith(".")
        crashed = done.exception is not None and not isinstance(done.exception, SystemExit)
        if crashed or done.exit_code != expected or sentence != bool(expected):
            wrong.append((i, done.exit_code, repr(done.exception), done.stderr[-300:]))

    assert not wrong, f"{len(wrong)}, such as {wrong[:3]}"
