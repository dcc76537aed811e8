def multiply_sum(theta, dataset):
    return sum([theta * x_i for x_i in dataset])


mapfunc = multiply_sum
