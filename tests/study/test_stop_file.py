from autotrainer.study.stop_file import StopFile


def test_nothing_asked_is_nothing(tmp_path):
    asked = StopFile(tmp_path)
    assert (asked.pause, asked.finish, asked.reason) == (False, False, "")


def test_a_pause_and_a_verdict_are_told_apart_and_forgotten(tmp_path):
    asked = StopFile(tmp_path)
    asked.ask("lunch")
    assert (asked.pause, asked.finish, asked.reason) == (True, False, "lunch")
    asked.ask("enough", finish=True)
    assert (asked.pause, asked.finish, asked.reason) == (False, True, "enough")
    asked.clear()
    assert not asked.pause


def test_a_file_that_somebody_touched_is_a_pause(tmp_path):
    (tmp_path / "stop.json").write_text("")
    assert StopFile(tmp_path).pause
