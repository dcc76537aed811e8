def mapfunc(params, dataset):
    """Without a data set every worker is asked once, and gets an empty list."""
    assert dataset == []
    return params
