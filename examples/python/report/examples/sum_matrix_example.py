# ruff: noqa: E402, I001
"""Summing a matrix: the program of the poster. It prints 78.

To run it:

    python sum_matrix_example.py                        two workers on this machine
    python sum_matrix_example.py localhost localhost    over ssh
"""

import logging
import os
import sys

import numpy

# The folder above this one, so that the modules beside this program are those of the package `examples`.
sys.path.append(os.path.join(os.path.dirname(sys.argv[0]), ".."))

from qjam.dataset import NumpyMatrixDataSet
from qjam.master.master import Master
from qjam.master.remote_worker import RemoteWorker

# The module with the function that runs on each piece of the data set.
from examples import sum_dataset


def main():
    _fmt = "%(asctime)s [%(levelname)s] %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, format=_fmt)

    # Worker hostnames are the arguments: one worker is started on each.
    hostnames = sys.argv[1:]
    workers = []
    for i, hostname in enumerate(hostnames):
        worker = RemoteWorker(hostname)
        workers.append(worker)
        print("Started worker %d on %s" % (i, hostname))

    matrix = numpy.matrix("1 2 3 4; 5 6 7 8; 9 10 11 12")
    print("Created matrix:")
    print(matrix)
    print()

    # A data set says how the matrix is cut into pieces for the workers.
    dataset = NumpyMatrixDataSet(matrix)

    master = Master(workers) if workers else Master("local:2")
    params = None  # No parameters needed for this job
    result = master.run(sum_dataset, params, dataset)

    print("Result is: %d" % result)


if __name__ == "__main__":
    main()
