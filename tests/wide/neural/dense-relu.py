"""A batch through a dense layer with ReLU."""


def kernel_dense_relu(x, w, bias, y):
    for b in range(x.shape[0]):
        for o in range(w.shape[0]):
            y[b, o] = bias[o]
            for i in range(x.shape[1]):
                y[b, o] += x[b, i] * w[o, i]
            y[b, o] = y[b, o] if y[b, o] > 0 else 0
