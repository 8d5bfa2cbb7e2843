"""Candidates in processes of their own."""

import os

import pytest

from openhpu_predict.errors import PredictError
from openhpu_predict.serving import candidates
from openhpu_predict.serving.candidates import Failed


def square(number, known):
    """Raises, dies, or never ends for some numbers."""
    if number == 3:
        raise PredictError("three is wrong")
    if number == 4:
        os.write(2, b"a last word\n")
        os._exit(5)
    if number == 5:
        os.read(os.pipe()[0], 1)  # for ever
    if number == 6:
        raise KeyError("six")
    return (number * number, os.getpid(), sorted(known)), {number: True}


def run(numbers, at_once=1, seconds=60.0, key=lambda number: number % 2):
    told = []
    found = candidates.run(numbers, key, square, at_once, lambda job, result: told.append(job), seconds)
    assert sorted(told) == sorted(numbers)
    return found


def test_results_are_in_the_order_of_the_jobs_and_of_other_processes():
    found = run([7, 1, 2], at_once=2)
    assert [one[0] for one in found] == [49, 1, 4]
    assert len({one[1] for one in found} | {os.getpid()}) == 4


def test_later_jobs_get_what_earlier_ones_of_the_same_key_found_out():
    assert [one[2] for one in run([1, 2, 7, 8])] == [[], [], [1], [2]]


@pytest.mark.parametrize(
    ("number", "seconds", "why"),
    [
        (3, 60.0, "three is wrong"),
        (4, 60.0, "a last word"),
        (5, 0.2, "it did not end in 0 s"),
        (6, 60.0, "KeyError: 'six'"),
    ],
)
def test_job_that_fails_leaves_the_others(number, seconds, why):
    failed, good = run([number, 9], at_once=1, seconds=seconds if number == 5 else 60.0)
    assert failed == Failed(why)
    assert good[0] == 81
