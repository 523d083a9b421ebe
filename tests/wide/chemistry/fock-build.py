"""Coulomb and exchange parts of a Fock matrix."""


def kernel_fock_build(F, H, D, eri):
    nbf = F.shape[0]
    for m in range(nbf):
        for n in range(nbf):
            F[m, n] = H[m, n]
            for k in range(nbf):
                for s in range(nbf):
                    F[m, n] += D[k, s] * (eri[m, n, k, s] - 0.5 * eri[m, k, n, s])
