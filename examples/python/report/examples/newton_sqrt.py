def newton_sqrt(n, dataset):
    """The square root of n by Newton's method, from each first guess of the chunk."""
    for guess in dataset:
        while abs(guess * guess - n) > 1e-12 * n:
            guess = (guess + n / guess) / 2.0
    return guess


mapfunc = newton_sqrt
