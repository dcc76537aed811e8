"""What goes wrong on workers, and what of it is seen here."""

from __future__ import annotations

import os
import pickle
from typing import Any, Iterator

import pytest

import qjam
from qjam import Master

KINDS = ["local:2", "inproc:2"]


@pytest.fixture(scope="module", params=KINDS)
def master(request: pytest.FixtureRequest) -> Iterator[Master]:
    with Master(request.param, run_folder=False) as m:
        yield m


@pytest.fixture(scope="module")
def local() -> Iterator[Master]:
    with Master("local:2", run_folder=False) as m:
        yield m


def works(m: Master) -> bool:
    return bool(m.run(lambda params, chunk: sum(chunk), None, [1, 2, 3]) == 6)


def remote_of(told: pytest.ExceptionInfo[BaseException]) -> qjam.RemoteError:
    cause = told.value.__cause__
    assert isinstance(cause, qjam.RemoteError)
    return cause


def test_an_exception_is_what_it_was_and_says_where_it_came_from(master: Master) -> None:
    def picky(params: Any, chunk: Any) -> int:
        for value in chunk:
            if value == 7:
                raise ValueError("seven is not wanted", value)  # the line that is to blame
        return 1

    data = qjam.DataSet(list(range(12)), slice_size=4)
    with pytest.raises(ValueError) as told:
        master.run(picky, None, data)
    assert told.value.args == ("seven is not wanted", 7)
    remote = remote_of(told)
    assert remote.host == "local" and remote.chunk == 1
    assert remote.chunk_hash and data.hash(1).startswith(remote.chunk_hash[:8])
    assert remote.function is not None and "picky" in remote.function
    assert "# the line that is to blame" in remote.remote_traceback
    assert "test_errors.py" in remote.remote_traceback and "_interpreter.py" not in remote.remote_traceback
    assert "chunk 1" in str(remote) and "# the line that is to blame" in str(remote)
    assert works(master)


class Own(Exception):
    def __init__(self, code: int, *, why: str) -> None:
        super().__init__(code)
        self.why = why


def test_an_exception_that_cannot_be_rebuilt_is_told_as_it_is(master: Master) -> None:
    def fails(params: Any, chunk: Any) -> int:
        raise Own(3, why="because")

    with pytest.raises(qjam.RemoteError, match="Own: 3") as told:
        master.run(fails, None, [1])
    assert not isinstance(told.value, qjam.WorkerDied)
    assert "because" in told.value.remote_traceback
    assert works(master)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_is_no_ordinary_exception_does_not_end_this_program(master: Master, kind: Any) -> None:
    def fails(params: Any, chunk: Any) -> int:
        raise kind(3)

    with pytest.raises(qjam.RemoteError, match=kind.__name__):
        master.run(fails, None, [1])
    assert works(master)


def test_an_exception_in_reduce_is_raised_too(master: Master) -> None:
    class Odd:
        def __add__(self, other: Any) -> Any:
            raise ArithmeticError("they do not go together")

    with pytest.raises((ArithmeticError, TypeError), match="they do not go together"):
        master.run(lambda params, chunk: Odd())
    assert works(master)


def test_results_that_cannot_be_combined_say_why(master: Master) -> None:
    data = qjam.DataSet([1, 2, 3], slice_size=1)
    with pytest.raises(TypeError, match="equally long|different lengths"):
        master.run(lambda params, chunk: list(range(chunk[0])), None, data)
    with pytest.raises(TypeError, match="None"):
        master.run(lambda params, chunk: chunk[0] if chunk[0] > 1 else None, None, data)
    assert works(master)


def test_what_cannot_travel_is_named(master: Master) -> None:
    import threading

    with pytest.raises(qjam.PicklingError, match="lock") as told:
        master.run(lambda params, chunk: 1, {"model": {"lock": threading.Lock()}}, [1])
    assert isinstance(told.value, TypeError) and "['model']['lock']" in str(told.value)


def test_a_module_without_mapfunc_says_what_it_has(master: Master) -> None:
    import json

    with pytest.raises(TypeError, match="mapfunc"):
        master.run(json, None, [1])


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("__import__('os')._exit(7)", "7"),
        ("__import__('os').kill(__import__('os').getpid(), 9)", "SIGKILL"),
        ("__import__('ctypes').string_at(0)", "SIGSEGV"),
    ],
)
def test_the_end_of_an_interpreter_is_told_and_the_master_goes_on(local: Master, way: str, said: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def dies(params, chunk):\n    print('last words', flush=True)\n    {way}\n", namespace)
    namespace["dies"].__module__ = "__main__"
    with pytest.raises(qjam.WorkerDied, match=said) as told:
        local.run(namespace["dies"], None, [1])
    assert isinstance(told.value, qjam.RemoteError)
    assert told.value.chunk == 0 and told.value.host == "local"
    assert "last words" in told.value.last_lines
    assert works(local)


def test_more_memory_than_the_limit_is_told_with_limit_and_peak() -> None:
    def hungry(params: Any, chunk: Any) -> int:
        return len(bytearray(1 << 31))

    with Master("local:1", memory_limit=600 << 20, run_folder=False) as m:
        with pytest.raises((MemoryError, qjam.WorkerDied)) as told:
            m.run(hungry, None, [1])
        text = str(told.value.__cause__ or told.value)
        assert "600 MiB" in text and "peak" in text, text
        assert works(m)


def test_errors_can_be_pickled() -> None:
    error = qjam.WorkerDied("killed", "big", 3, "abc", "Traceback …", ("a", "b"), "f")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.last_lines == ["a", "b"] and again.chunk == 3
    connect = qjam.ConnectError("big: no route", {"big": "no route"})
    assert pickle.loads(pickle.dumps(connect)).failures == {"big": "no route"}


def test_a_run_that_is_not_there_cannot_be_gone_on_from(tmp_path: os.PathLike[str]) -> None:
    with pytest.raises(qjam.ResumeError, match="no run of that name"):
        Master("local:1", run_folder=tmp_path, resume="nosuchrun")
