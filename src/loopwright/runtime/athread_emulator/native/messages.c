/* Register communication: messages between CPEs of a row or column, in order, four to a buffer. */

#include "emulator.h"

static MessageQueue *queue_of(Cpe *cpe, bool along_row) {
    return along_row ? &cpe->from_row : &cpe->from_column;
}

static void deliver(Cpe *self, Cpe *to, bool along_row, const void *value, size_t bytes, int site,
                    long id) {
    MessageQueue *queue = queue_of(to, along_row);
    while (queue->count == MESSAGES) wait_here(SENDING, site);
    Message *m = &queue->entries[(queue->first + queue->count++) % MESSAGES];
    memset(m->value, POISON, sizeof m->value);
    memcpy(m->value, value, bytes);
    m->bytes = (int)bytes;
    m->from = self->id;
    m->site = site;
    m->id = id;
    memcpy(m->clocks, self->clocks, sizeof m->clocks);
    if (to->state == RECEIVING) to->state = READY;
    ++progress;
}

void lw_send(int along_row, const void *value, size_t bytes, int to) {
    int site = told_site(lw_call_site);
    Cpe *self = need_cpe(along_row ? "putr" : "putc");
    int limit = along_row ? lw_machine.columns : lw_machine.rows;
    const char *name = along_row ? "putr" : "putc";
    if (bytes > MESSAGE_BYTES) fault(site, "sends %zu bytes by %s", bytes, name);
    if (to < 0 || to > limit)
        fault(site, "sends by %s to %s %d; there are 0 to %d, and %d for all others", name,
              along_row ? "column" : "row", to, limit - 1, limit);
    int own = along_row ? column_of(self->id) : row_of(self->id);
    if (to == own) fault(site, "sends to itself by %s", name);
    long id = trace_message(self, 's', 0);
    for (int other = 0; other < limit; ++other) {
        if (other == own || (to != limit && to != other)) continue;
        int core = along_row ? row_of(self->id) * lw_machine.columns + other
                             : other * lw_machine.columns + column_of(self->id);
        if (!(team_members() >> core & 1) || cpes[core].state == ENDED)
            fault(site, "sends by %s to CPE %d, which %s", name, core,
                  team_members() >> core & 1 ? "has ended" : "is not of the team");
        deliver(self, &cpes[core], along_row, value, bytes, site, id);
    }
    ++self->clocks[self->id];
}

void lw_receive(int along_row, void *value, size_t bytes) {
    int site = told_site(lw_call_site);
    const char *name = along_row ? "getr" : "getc";
    Cpe *self = need_cpe(name);
    MessageQueue *queue = queue_of(self, along_row);
    while (queue->count == 0) wait_here(RECEIVING, site);
    Message *m = &queue->entries[queue->first];
    queue->first = (queue->first + 1) % MESSAGES;
    --queue->count;
    for (int i = 0; i < cpe_count(); ++i)
        if (cpes[i].state == SENDING) cpes[i].state = READY;
    ++progress;
    if ((int)bytes != m->bytes)
        fault(site, "takes %zu bytes by %s of a message of %d, which CPE %d sent at %s", bytes, name,
              m->bytes, m->from, place(m->site));
    memcpy(value, m->value, bytes);
    join_clocks(self->clocks, m->clocks);
    forget_arrivals(self);
    lw_call_site = site;
    trace_message(self, 'r', m->id);
}

void check_no_message_left(void) {
    for (int i = 0; i < cpe_count(); ++i)
        for (int along_row = 0; along_row < 2; ++along_row) {
            MessageQueue *queue = queue_of(&cpes[i], along_row);
            if (!queue->count) continue;
            Message *m = &queue->entries[queue->first];
            fault(m->site, "CPE %d sends a message that CPE %d never takes (%d left in its buffer)",
                  m->from, i, queue->count);
        }
}
