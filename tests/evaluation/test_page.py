import re
import shutil
import subprocess

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from rl4co_prompt.evaluation.evaluate import evaluate
from rl4co_prompt.evaluation.methods import parse_methods
from rl4co_prompt.evaluation.page import page


class Links(HTMLParser):
    """Whatever a page would load, and the text it shows."""

    def __init__(self):
        super().__init__()
        self.loads, self.text, self.ids = [], [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids += [values["id"]] if "id" in values else []
        links = [values.get(k) or "" for k in ("src", "href", "xlink:href")]
        self.loads += [x for x in links if x and not x.startswith("#")]
        self.loads += [tag] if tag in ("script", "link", "iframe") else []

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_complete_and_loads_nothing(result):
    text = page(result, command="rl4co-prompt evaluate <now>")
    reader = Links()
    reader.feed(text)
    shown = " ".join(reader.text)

    assert not [x for x in reader.loads if not x.startswith("data:image/png")]
    assert len(reader.ids) == len(set(reader.ids))
    for part in ("Gaps", "Budget", "Curves", "Tokens per layer", "Prompts chosen", "Best of",
                 "Worst of", "Test sets", "a rule", "rl4co-prompt evaluate <now>"):  # fmt: skip
        assert part in shown, part
    assert f"{result.score('backbone', 'small').mean_gap:.2f}" in shown
    assert text == page(result, command="rl4co-prompt evaluate <now>")


def test_names_can_not_break_the_page(result):
    result.sets = [replace(result.sets[0], label="<script>alert(1)</script>"), result.sets[1]]

    assert "<script>" not in page(result)


def test_one_pass_draws_no_curve(sets, solver_for):
    alone = evaluate("s", sets, parse_methods("backbone"), solver_for)
    more = evaluate("s", sets, parse_methods("backbone@2"), solver_for)

    assert "Curves" not in page(alone)
    assert "Gap by budget" in page(more)


@pytest.mark.parametrize("width", [1280, 420])
def test_the_page_fits_in_a_browser(result, width, tmp_path):
    browser = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if browser is None:
        pytest.skip("no Chromium at hand")
    file = tmp_path / "report.html"
    probe = (
        "<script>addEventListener('load', () => { const e = document.documentElement;"
        "const word = new Range(); word.selectNodeContents(document.querySelector('.wrap td'));"
        "const label = document.querySelector('.wide svg text').getBoundingClientRect();"
        "document.title = [e.scrollWidth, e.clientWidth, document.querySelectorAll('svg').length,"
        "getComputedStyle(document.body).backgroundColor, label.height,"
        "word.getClientRects().length].join('|'); })</script>"
    )
    long = "a folder/of another/outside_collection_of_instances_0-499.npz"
    result.sets = [replace(one, source=long) for one in result.sets]
    file.write_text(page(result).replace("</body>", probe + "</body>"))
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"]
    for dark in (False, True):
        shade = [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
        dump = subprocess.run(
            [browser, *options, *shade, f"--user-data-dir={tmp_path}", "--dump-dom", file.as_uri()],
            capture_output=True, text=True, timeout=120,
        ).stdout  # fmt: skip
        title = re.search(r"<title>(.*?)</title>", dump)[1].split("|")
        assert int(title[0]) <= int(title[1]), "the page is wider than its window"
        assert int(title[2]) >= 6
        assert float(title[4]) >= 9, "labels are too small to read"
        assert title[5] == "1", "a word is broken"
        assert title[3] == ("rgb(18, 22, 28)" if dark else "rgb(255, 255, 255)")
