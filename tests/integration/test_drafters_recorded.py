"""A question is written down before it is asked and its answer after: nobody is asked twice, whatever happens."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.client import Pipeline
from redis.exceptions import ConnectionError as NoConnection

from schemas import codec
from tasks.rules.strategy import Consult, Drafted
from worker.drafters import consulting
from worker.drafters.base import STOPPED, Stop, estimate
from worker.drafters.consulting import LOST, Consulting, RecordedDrafter
from worker.settings.settings import Settings
from worker.store.keys import Partition

HOME = Partition(0)
PLAN = "plan_00-00000000000000000000000000000001"
QUESTION = Consult("Plan it", {"type": "object"})
ANSWER = Drafted('{"summary": "done"}', None, 42, 7)


@dataclass
class Somebody:
    """A drafter that is called so often."""

    answer: Drafted = ANSWER
    dies: bool = False
    calls: list[Consult] = field(default_factory=list)

    def ask(self, question: Consult, stop: Stop) -> Drafted:
        self.calls.append(question)
        stop()
        if self.dies:
            raise SystemExit
        return self.answer


@pytest.fixture
def somebody() -> Somebody:
    return Somebody()


def ask(redis: Redis, drafter: Somebody, number: int = 1, question: Consult = QUESTION) -> Drafted:
    return RecordedDrafter(redis, HOME, drafter).ask(PLAN, number, question, lambda: False)


def test_a_question_that_was_answered_is_not_asked_again(redis: Redis, somebody: Somebody) -> None:
    assert ask(redis, somebody) == ask(redis, somebody) == ANSWER
    assert len(somebody.calls) == 1


def test_a_failure_is_an_answer_too(redis: Redis) -> None:
    failing = Somebody(Drafted(None, "HTTP 500", 3))

    assert ask(redis, failing) == ask(redis, failing) == failing.answer
    assert len(failing.calls) == 1


def test_a_question_whose_asker_died_is_lost_and_not_asked_again(redis: Redis, somebody: Somebody) -> None:
    with pytest.raises(SystemExit):
        ask(redis, Somebody(dies=True))

    assert ask(redis, somebody).error == ask(redis, somebody).error == LOST
    assert somebody.calls == []


def test_another_question_is_another_call(redis: Redis, somebody: Somebody) -> None:
    ask(redis, somebody, 1)
    ask(redis, somebody, 2, Consult("Mend it"))

    assert [call.prompt for call in somebody.calls] == ["Plan it", "Mend it"]


def test_other_words_of_another_release_are_the_same_question(redis: Redis, somebody: Somebody) -> None:
    ask(redis, somebody)

    assert ask(redis, somebody, question=Consult("Plan it, please")) == ANSWER
    assert len(somebody.calls) == 1


def test_a_call_that_was_stopped_leaves_no_answer(redis: Redis) -> None:
    said = ask(redis, Somebody(Drafted(None, STOPPED)))

    assert said.error == STOPPED
    assert set(redis.hkeys(HOME.drafts(PLAN))) == {b"1:asked"}


def test_what_is_recorded_goes_in_time(redis: Redis, somebody: Somebody) -> None:
    ask(redis, somebody)

    assert 0 < int(redis.ttl(HOME.drafts(PLAN))) <= consulting.KEPT_S


def test_an_answer_that_was_paid_for_is_written_down_though_the_server_is_away(
    redis: Redis, somebody: Somebody, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consulting, "PAUSE_S", 0.01)
    execute, left = Pipeline.execute, [NoConnection("gone"), NoConnection("gone")]

    def away_after_the_answer(self: Any) -> list[Any]:
        if somebody.calls and left:
            raise left.pop()
        return execute(self)

    monkeypatch.setattr(Pipeline, "execute", away_after_the_answer)

    assert ask(redis, somebody) == ANSWER
    assert ask(redis, somebody) == ANSWER
    assert len(somebody.calls) == 1


def test_a_server_that_is_away_does_not_stop_a_call(redis: Redis, somebody: Somebody) -> None:
    def away() -> bool:
        raise NoConnection("gone")

    assert RecordedDrafter(redis, HOME, somebody).ask(PLAN, 1, QUESTION, away) == ANSWER


def test_an_answer_that_no_encoding_has_is_kept_as_far_as_it_can_be_written(redis: Redis) -> None:
    broken = Somebody(Drafted('{"summary": "half \ud83d"}', None, 42, 7))

    assert ask(redis, broken) == ask(redis, broken) == Drafted('{"summary": "half ?"}', None, 42, 7)
    assert len(broken.calls) == 1


def test_a_lost_answer_is_not_for_free(redis: Redis, somebody: Somebody) -> None:
    with pytest.raises(SystemExit):
        ask(redis, Somebody(dies=True))

    assert ask(redis, somebody).tokens == estimate(QUESTION.prompt) > 0


def test_what_was_run_for_an_answer_is_kept_with_it(redis: Redis) -> None:
    known = Somebody(Drafted("done", None, 42, 7, ("agent", "-p"), "thought about it"))

    assert ask(redis, known) == ask(redis, known) == known.answer


def test_what_a_newer_release_wrote_down_is_read(redis: Redis, somebody: Somebody) -> None:
    key = HOME.drafts(PLAN)
    told = {"output": "done", "error": None, "tokens": 42, "duration_ms": 7, "colour": "red"}
    redis.hset(key, mapping={"1:asked": "its digest", "1:answer": codec.dumps(told)})

    assert ask(redis, somebody) == Drafted("done", None, 42, 7)
    assert somebody.calls == []


@pytest.mark.parametrize(
    ("question", "modes"),
    [
        (Consult("Plan it", {}, "strict"), {"validation": "strict", "schema": "native"}),
        (Consult("Plan it", None, "none"), {"validation": "none", "schema": "none"}),
        (Consult("Plan it", {}), {"validation": "lenient", "schema": "native"}),
    ],
)
def test_what_is_kept_of_a_question_says_how_it_was_asked_and_read(
    question: Consult, modes: dict[str, str], redis: Redis, tmp_path: Path
) -> None:
    backend = "tests.support.backends:Talkative"
    secret = {"planning_debug_dir": tmp_path, "cli_env": '{"TOKEN": "a-very-secret-word"}'}
    consulting = Consulting(redis, Settings(planning_backend=backend, **secret))  # type: ignore[arg-type]

    consulting.ask("backend", HOME, PLAN, 1, question, lambda: False)

    (file,) = tmp_path.iterdir()
    assert codec.loads(file.read_bytes())["modes"] == modes
    assert "a-very-secret-word" not in file.read_text()
