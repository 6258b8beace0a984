"""A person at the page: finds the winner, reads why it exists, compares, and watches a study go on."""

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from autotrainer.testing.sample_study import SampleStudy, write_sample_study, write_wide_study
from autotrainer.tree.proposal import Purpose

pytestmark = pytest.mark.browser

HOSTILE = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'


@pytest.fixture(scope="module")
def sample(tmp_path_factory, serve) -> str:
    root = write_sample_study(tmp_path_factory.mktemp("runs") / "sample")
    folder = root / "nodes" / "n015" / "1" / "rollouts"
    folder.mkdir(parents=True)
    rows = [
        {
            "step": 60, "prompt_id": f"p{group}", "group": group, "prompt": f"{group}+1=?", "tokens": 3,
            "completion": HOSTILE if place == 0 else str(group + 1), "finish_reason": "stop",
            "reward": float(place), "advantage": place - 0.5, "components": '{"accuracy": 1.0}',
        }
        for group in (0, 1) for place in (0, 1)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), folder / "60.parquet")
    return serve(root)


def test_a_person_finds_the_winner_and_reads_a_rollout(page, sample):
    page.goto(sample)
    page.get_by_role("button", name="Winner n015").click()
    panel = page.get_by_role("tabpanel")
    panel.get_by_role("heading", name="n015").wait_for()
    assert "#/node/n015" in page.url
    assert panel.get_by_text("path n000").is_visible()
    group = panel.locator("details.group").first
    group.locator("summary").click()
    assert group.get_by_text("reward 1", exact=True).is_visible()
    assert HOSTILE in group.inner_text()
    assert panel.locator("img").count() == panel.locator("script").count() == 0
    assert page.title() != "owned"


def test_a_click_on_a_box_opens_the_node_with_its_why(page, sample):
    page.goto(sample)
    page.locator("[data-node=n007]").click()
    panel = page.get_by_role("tabpanel")
    panel.get_by_text("raise the upper clip and the rate").first.wait_for()
    assert panel.get_by_text("dev 55.3 %, +3.9 points from n005").is_visible()


def test_two_nodes_are_compared(page, sample):
    page.goto(f"{sample}/#/node/n007")
    page.get_by_label("Compare with").select_option("n005")
    page.get_by_role("heading", name="n005 against n007").wait_for()
    row = page.get_by_role("row", name="learning_rate")
    assert row.inner_text().split() == ["learning_rate", "1e-4", "2e-4"]


def test_the_tree_is_walked_by_keyboard(page, sample):
    page.goto(sample)
    page.locator("[data-node=n000]").focus()
    page.keyboard.press("ArrowRight")
    reached = page.evaluate("document.activeElement.dataset.node")
    assert reached in {"n001", "n002", "n003"}
    page.keyboard.press("Enter")
    page.get_by_role("tabpanel").get_by_role("heading", name=reached).first.wait_for()


def test_every_tab_has_something_to_say(page, sample):
    page.goto(sample)
    for name, words in (
        ("Decisions", "phase confirm"),
        ("Skills", "dapo-clip-higher"),
        ("Budget", "confirmation seeds"),
    ):
        page.get_by_role("tab", name=name).click()
        page.get_by_role("tabpanel").get_by_text(words).first.wait_for()


def test_colours_and_search_mark_boxes(page, sample):
    page.goto(sample)
    box = page.locator("[data-node=n007] rect")
    before = box.get_attribute("fill")
    page.get_by_label("Colour by").select_option("skill")
    assert box.get_attribute("fill") != before
    page.get_by_label("Find").fill("collapse")
    assert page.locator(".node:not(.dim)").count() == 1


def test_controls_have_names_and_text_has_contrast(page, sample):
    page.goto(sample)
    page.locator("[data-node=n000]").wait_for()
    nameless = page.evaluate(
        """[...document.querySelectorAll('button, input, select, a, [role=button]')].filter((e) =>
        !(e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length))).length"""
    )
    assert nameless == 0
    ratios = page.evaluate(CONTRAST)
    assert len(ratios) > 15
    assert min(ratios) >= 4.5


CONTRAST = """(() => {
  const part = (x) => (x / 255 <= .03928 ? x / 255 / 12.92 : ((x / 255 + .055) / 1.055) ** 2.4);
  const lum = (c) => {
    const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map(Number).map(part);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [lum(a), lum(b)].sort((p, q) => q - p);
    return (x + .05) / (y + .05);
  };
  const boxes = [...document.querySelectorAll('.node')].map((n) => ratio(
    getComputedStyle(n.querySelector('rect')).fill, getComputedStyle(n.querySelector('text')).fill));
  const page = getComputedStyle(document.body).backgroundColor;
  const words = [...document.querySelectorAll('.soft, h1, p, a')];
  return [...boxes, ...words.map((e) => ratio(getComputedStyle(e).color, page))];
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_have_contrast(page, sample, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto(sample)
    page.locator("[data-node=n000]").wait_for()
    assert min(page.evaluate(CONTRAST)) >= 4.5


def test_a_running_study_grows_on_the_page(page, serve, tmp_path: Path):
    study = SampleStudy(tmp_path / "growing")
    study.start()
    study.base()
    page.goto(serve(study.root))
    page.locator("[data-node=n000]").wait_for()
    assert page.locator(".node").count() == 1
    node = study.seed(Purpose.CAREFUL, 11)
    box = page.locator("[data-node=n001]")
    box.wait_for()
    study.complete(node, 0.471)
    page.locator("[data-node=n001].completed").wait_for()
    assert "47.1 %" in box.text_content()


@pytest.mark.slow
def test_five_hundred_nodes_are_smooth(page, serve, tmp_path: Path):
    root = write_wide_study(tmp_path / "wide", 500)
    page.goto(serve(root))
    began = time.perf_counter()
    page.locator("[data-node=n500]").wait_for(state="attached")
    assert time.perf_counter() - began < 10
    slowest = page.evaluate(
        """async () => {
        const canvas = document.getElementById('canvas'), times = [];
        let last = performance.now();
        for (let i = 0; i < 30; i++) {
          const turn = {deltaY: i % 2 ? 60 : -60, clientX: 300, clientY: 400, cancelable: true};
          canvas.dispatchEvent(new WheelEvent('wheel', turn));
          await new Promise(requestAnimationFrame);
          const now = performance.now();
          times.push(now - last);
          last = now;
        }
        return times.sort((a, b) => a - b)[15]; }"""
    )
    assert page.locator(".node:visible").count() < 200
    assert slowest < 250, f"{slowest:.0f} ms a frame"
