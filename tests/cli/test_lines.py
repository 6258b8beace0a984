from autotrainer.cli.progress import LineProgress
from autotrainer.study.view import StudyView
from autotrainer.testing.trees import TreeBuilder, a_finding


def a_builder() -> TreeBuilder:
    builder = TreeBuilder()
    base = builder.base()
    careful = builder.careful_seeds(0.4)[0]
    bad = builder.node(base, knobs={"learning_rate": 1e-2})
    builder.pruned(bad, a_finding("collapse"))
    builder.completed(builder.node(careful, knobs={"learning_rate": 5e-5}, skills=["lr-backoff"]), 0.5)
    return builder


def test_every_event_that_matters_has_one_line(make_study, capsys):
    view = StudyView.read(make_study("one", a_builder()))
    LineProgress().tick(view)
    out = capsys.readouterr().out
    assert "the clock starts: 2xCPUx6m, 720 device-seconds" in out
    assert "n001 completed, dev 0.400" in out
    assert "n002 shows collapse: collapse seen" in out
    assert "n002 pruned: by hand" in out
    assert "n003 search transition from n001 step 60 by lr-backoff: learning_rate" in out


def test_a_line_is_printed_once_and_a_resumed_study_does_not_repeat_the_past(make_study, capsys):
    view = StudyView.read(make_study("one", a_builder()))
    progress = LineProgress(seen=len(view.events) - 1)
    progress.tick(view)
    progress.tick(view)
    assert capsys.readouterr().out.splitlines() == ["  0:00  n003 completed, dev 0.500"]


def test_lines_leave_standard_output_to_json(make_study, capsys):
    LineProgress(to_stderr=True).tick(StudyView.read(make_study("one", a_builder())))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "n003" in captured.err
