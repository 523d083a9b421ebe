"""The most likely path through a hidden Markov model: scores and predecessors."""


def kernel_viterbi(steps, states, start, trans, emit, score, before):
    for s in range(states):
        score[0, s] = start[s] + emit[0, s]
        before[0, s] = s
    for t in range(1, steps):
        for s in range(states):
            top = score[t - 1, 0] + trans[0, s]
            who = 0
            for r in range(1, states):
                via = score[t - 1, r] + trans[r, s]
                who = r if via > top else who
                top = max(via, top)
            score[t, s] = top + emit[t, s]
            before[t, s] = who
