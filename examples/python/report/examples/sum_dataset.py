import numpy


def sum_dataset(params, dataset):
    """The sum of all elements of a chunk, which is a matrix or an array."""
    return numpy.sum(dataset)


mapfunc = sum_dataset
