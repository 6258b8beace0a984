from html.parser import HTMLParser

from autotrainer.testing.trees import TreeBuilder, a_finding
from autotrainer.ui.report import render_report, render_tree_page, write_report
from autotrainer.ui.report_words import planned
from autotrainer.ui.sparkline import Axes, sparkline
from autotrainer.ui.tree_picture import tree_picture

OUTSIDE = ("src", "href", "srcset", "data", "action", "poster", "background")
VOID = {"meta", "br", "circle", "rect", "path", "line", "polyline", "link", "img"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; its tags have to nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def report(view) -> str:
    return render_report(view, tree_picture(view))


def test_the_first_line_says_whether_search_paid(finished):
    html = report(finished)
    first = html.partition("<h1>")[2].partition("</h1>")[0]
    assert first.startswith(
        "Search paid: +4.6 points on dev over equally long careful runs, 3 fresh seeds each"
    )
    assert "95 % interval +2.5 to +6.6" in first


def test_the_report_has_no_script_and_nothing_from_outside(finished):
    for html in (report(finished), render_tree_page(finished, tree_picture(finished))):
        page = Page(html)
        assert not {"script", "iframe", "object", "embed", "link", "img", "form"} & set(page.tags)
        assert not set(OUTSIDE) & set(page.attributes)
        assert not any(name.startswith("on") for name in page.attributes)
        assert "url(" not in html
        assert "@import" not in html


def test_the_report_tells_plan_path_kills_and_time(finished):
    words = Page(report(finished)).words
    for told in (
        "The smallest gain over careful that this budget can prove is about 3.4 points (3 fresh seeds",
        "raise the upper clip and the rate: rare correct tokens may grow",
        "lr 1e-4 \u2192 2e-4",
        "n003 : collapse at step 15: reward fell from 0.36 to 0.01",
        "hooks/overlong.py line 31: TypeError",
        "n010 anneal-late: lr schedule constant \u2192 linear, dev 54.9 % after 55.3 % in n007",
        "9:41 min",
        "autotrainer run-node sample n007",
    ):
        assert told in words


def test_text_of_models_and_logs_is_shown_and_never_run(view_of):
    builder = TreeBuilder()
    base = builder.base()
    bad = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    node = builder.node(base, skills=[bad])
    builder.pruned(node, a_finding(bad))
    page = Page(
        report(view_of(builder, ("study_finished", {"reason": bad, "summary": {"reasons": [bad, bad]}})))
    )
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert bad in page.words


def test_a_study_can_be_reported_at_any_moment(view_of, running):
    assert "Nothing is scored yet." in Page(report(view_of())).words
    builder = TreeBuilder()
    builder.node(builder.base(None, None))
    assert "Not judged yet" in Page(report(view_of(builder))).words
    assert "34 of 60 steps, running" in Page(report(running)).words


def test_a_budget_too_small_to_prove_anything_says_so(finished, view_of):
    plan = {**finished.plan.to_json(), "confirm_seeds": 0, "provable_gain": 1.0}
    view = view_of(None, ("study_prepared", {"plan": plan, "manifest": {}, "model_path": "tiny"}))
    assert planned(view)[0] == "This budget buys too few seeds to prove any gain over careful."


def test_writing_the_report_writes_the_picture_too(finished):
    path = write_report(finished)
    assert path == finished.paths.report
    assert path.read_text(encoding="utf-8") == report(finished)
    assert finished.paths.tree_picture.read_text(encoding="utf-8") == tree_picture(finished)


def test_the_report_of_a_simulated_study_is_labelled(finished, monkeypatch):
    monkeypatch.setattr(type(finished), "simulated", True)
    assert "Simulated: no model was trained." in Page(report(finished)).words
    assert "SIMULATED." in tree_picture(finished)


def test_a_curve_is_drawn_within_its_axes_and_left_out_where_empty():
    axes = Axes.around([[(1, 0.0), (100, 1.0)]], 100)
    drawn = sparkline([(1, 0.0), (50, 5.0), (100, 1.0)], axes, "reward <b>")
    assert 'points="3,41 94.1,3 187,3"' in drawn
    assert "reward &lt;b&gt;" in drawn
    assert sparkline([], axes, "reward") == ""
