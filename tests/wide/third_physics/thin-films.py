"""Reflection of a stack of thin films by characteristic matrices, over waves and angles."""

import math


def kernel_thin_films(waves, angles, layers, substrate, index, thick, wave, reflect, best):
    for w in range(waves):
        best[w] = 1.0
        for a in range(angles):
            sine = 0.9 * a / angles
            m11 = 1.0
            m12 = 0.0
            m21 = 0.0
            m22 = 1.0
            for k in range(layers):
                cosine = math.sqrt(1.0 - sine / index[k] * (sine / index[k]))
                phase = 2.0 * math.pi * index[k] * thick[k] * cosine / wave[w]
                eta = index[k] * cosine
                c = math.cos(phase)
                s = math.sin(phase)
                m11, m12 = m11 * c - m12 * s * eta, m11 * s / eta + m12 * c
                m21, m22 = m21 * c + m22 * s * eta, -m21 * s / eta + m22 * c
            eta0 = math.sqrt(1.0 - sine * sine)
            etas = substrate * math.sqrt(1.0 - sine / substrate * (sine / substrate))
            br = m11
            bi = m12 * etas
            cr = m22 * etas
            ci = m21
            up = (eta0 * br - cr) ** 2 + (eta0 * bi - ci) ** 2
            down = (eta0 * br + cr) ** 2 + (eta0 * bi + ci) ** 2
            reflect[w, a] = up / down
            if reflect[w, a] < best[w]:
                best[w] = reflect[w, a]
