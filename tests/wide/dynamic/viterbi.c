/* The most likely path through a hidden Markov model, in logarithms: scores, and for every state
   the state before. */
void kernel_viterbi(int steps, int states, double start[states], double trans[states][states],
                    double emit[steps][states], double score[steps][states],
                    int from[steps][states])
{
#pragma scop
    for (int s = 0; s < states; s++) {
        score[0][s] = start[s] + emit[0][s];
        from[0][s] = s;
    }
    for (int t = 1; t < steps; t++)
        for (int s = 0; s < states; s++) {
            double top = score[t - 1][0] + trans[0][s];
            int who = 0;
            for (int r = 1; r < states; r++) {
                double via = score[t - 1][r] + trans[r][s];
                who = via > top ? r : who;
                top = via > top ? via : top;
            }
            score[t][s] = top + emit[t][s];
            from[t][s] = who;
        }
#pragma endscop
}
