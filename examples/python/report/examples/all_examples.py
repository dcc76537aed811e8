# ruff: noqa: E402, I001
"""The small programs of the report, one after the other.

To run it:

    python all_examples.py                        two workers on this machine
    python all_examples.py localhost localhost    over ssh
"""

import os
import sys

import numpy

sys.path.append(os.path.join(os.path.dirname(sys.argv[0]), ".."))

from qjam import DataSet, Master, RemoteWorker
from qjam.dataset import ListDataSet, NumpyMatrixDataSet

from examples import count_characters, inner_product, multiply_sum, newton_sqrt, sum_dataset, the_answer


def main():
    hostnames = sys.argv[1:]
    master = Master([RemoteWorker(name) for name in hostnames]) if hostnames else Master("local:2")

    # The report's own call.
    params = 42
    dataset = ListDataSet(range(1, 100))
    result = master.run(multiply_sum, params, dataset)
    print("42 times the sum of 1 to 99:", result)

    print("3 times the sum of 1 to 10:", master.run(multiply_sum, 3, ListDataSet(range(1, 11))))
    print("3 times the sum of 0 to 99:", master.run(multiply_sum, 3, ListDataSet(range(100))))
    print(
        "Sum of the rows 1 to 100:",
        master.run(sum_dataset, None, NumpyMatrixDataSet(numpy.arange(1, 101).reshape(20, 5))),
    )
    print(
        "Inner products with (2, 4):",
        master.run(inner_product, (2, 4), DataSet(numpy.arange(1, 11).reshape(5, 2))),
    )
    print("Square root of 2:", master.run(newton_sqrt, 2.0, ListDataSet([1.0])))
    print("Two workers that say 42:", master.run(the_answer, 42, None))

    lines = ["the quick brown fox", "jumps over", "the lazy dog"]
    counted = master.run(count_characters, None, ListDataSet(lines, slice_size=1))
    print("Letters e, o and t:", counted["e"], counted["o"], counted["t"])


if __name__ == "__main__":
    main()
