/* DMA and RMA: requests, what may be wrong with them, when they end, and who may touch what. The
 * functions of Athread that make them are in dma_calls.c.
 *
 * A transfer ends when its reply is polled, requests with one reply in an order that is drawn. Its
 * target is poisoned meanwhile. Until a CPE has seen the end of a transfer it must not touch the
 * target, nor change the source: every access is checked (access.c).
 */

#include "emulator.h"

static long requests;

static long count_of_blocks(const Request *r) {
    return r->len / r->bsize;
}

static bool overlap(const volatile char *a, long m, const volatile char *b, long n) {
    return a < b + n && b < a + m;
}

/* A range of an LDM that a transfer reads, or writes. */
typedef struct {
    char *start;
    bool is_target;
} Range;

/* Where a CPE that has part in a transfer must keep off, at most a source and a target: one that
 * sends to itself has both. Data that stay in their place are a source. */
static int ranges_at(const Request *r, const Cpe *cpe, Range found[2]) {
    bool is_issuer = cpe->id == r->cpe, is_other = r->targets >> cpe->id & 1;
    char *ldm = as_named_by(cpe->id, r->ldm), *source = NULL, *target = NULL;
    switch (r->kind) {
    case GET: case BROADCAST: target = ldm; break;
    case PUT: source = ldm; break;
    case REMOTE_PUT:
        if (is_issuer) source = ldm;
        if (is_other) target = as_named_by(cpe->id, r->memory);
        break;
    case REMOTE_GET:
        if (is_other) source = as_named_by(cpe->id, r->memory);
        if (is_issuer) target = ldm;
        break;
    case REMOTE_BROADCAST:
        if (is_issuer) source = as_named_by(cpe->id, r->memory);
        if (is_other) target = ldm;
    }
    int count = 0;
    if (source) found[count++] = (Range){source, false};
    if (target && target != source) found[count++] = (Range){target, true};
    return count;
}

static bool has_part(const Request *r, const Cpe *cpe) {
    return r->cpe == cpe->id || r->targets >> cpe->id & 1;
}

/* Whether the end of a request is not known to a CPE that has part in it. Where the issuer has seen
 * it, a target learns of it by its own reply, or by what the issuer does next: see Arrival. */
static bool is_open(const Request *r, const Cpe *cpe) {
    if (!has_part(r, cpe)) return false;
    if (cpe->id == r->cpe) return !r->is_done || r->unseen >> cpe->id & 1;
    bool has_seen = r->remote_reply && !(r->unseen >> cpe->id & 1);
    return !has_seen && (!r->is_done || !r->seen);
}

/* Requests that may concern a CPE: its own, then those of others into its LDM. */
static Request *all_requests; /* that somebody has yet to see the end of, the youngest first */

static void check_against(Cpe *cpe, Request *r, const volatile char *start, long bytes,
                          bool is_write, int site) {
    Range ranges[2];
    for (int n = ranges_at(r, cpe, ranges); n-- > 0;) {
        if (!overlap(ranges[n].start, r->len, start, bytes)) continue;
        if (ranges[n].is_target)
            fault(site, "%s %ld bytes at %s, under transfer by the %s of %s%s",
                  is_write ? "writes" : "reads", bytes, describe(start), r->name, place(r->site),
                  r->cpe == cpe->id ? ": it has not waited for its reply" : " of another CPE");
        if (is_write)
            fault(site, "changes %s, the source of the %s of %s, before it is done",
                  describe(start), r->name, place(r->site));
    }
}

void check_ldm_access(Cpe *cpe, const volatile char *start, long bytes, bool is_write, int site) {
    for (Request *r = all_requests; r; r = r->next)
        if (is_open(r, cpe)) check_against(cpe, r, start, bytes, is_write, site);
    for (Arrival *a = cpe->arrivals; a; a = a->next)
        if (overlap(a->start, a->bytes, start, bytes))
            fault(site, "%s %s, which CPE %d has brought there by the transfer of %s, with no "
                  "barrier, message or reply between the two", is_write ? "writes" : "reads",
                  describe(start), a->from, place(a->site));
    for (Arrival *a = cpe->unfenced; a && !is_write; a = a->next)
        if (overlap(a->start, a->bytes, start, bytes))
            fault(site, "reads %s, which the transfer of %s has brought, with no memory barrier "
                  "(memb) since its reply was seen", describe(start), place(a->site));
}

void forget_unfenced(Cpe *cpe) {
    while (cpe->unfenced) {
        Arrival *a = cpe->unfenced;
        cpe->unfenced = a->next;
        free(a);
    }
}

static void forget_seen(void);

void forget_arrivals(Cpe *cpe) {
    for (Request *r = all_requests; r; r = r->next)
        if (r->seen && cpe->clocks[r->cpe] >= r->seen) r->unseen &= ~(1ull << cpe->id);
    forget_seen();
    for (Arrival **at = &cpe->arrivals; *at;) {
        Arrival *a = *at;
        if (cpe->clocks[a->from] < a->clock) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        free(a);
    }
}

/* -- making a request --------------------------------------------------------------------------------- */

static void need_unit(int site, const char *name, const char *what, unsigned long value) {
    if (value % (unsigned long)lw_machine.dma_unit)
        fault(site, "calls %s with %s %#lx, which is no multiple of %ld bytes", name, what, value,
              lw_machine.dma_unit);
}

static void check_sizes(int site, const char *name, long len, long bsize, long stride) {
    if (len <= 0) fault(site, "calls %s for %ld bytes", name, len);
    if (bsize < 0 || stride < 0)
        fault(site, "calls %s with a negative %s", name, bsize < 0 ? "block size" : "gap");
    if (stride && !bsize)
        fault(site, "calls %s with a gap of %ld bytes and no block size", name, stride);
    if (bsize && len % bsize)
        fault(site, "calls %s for %ld bytes in blocks of %ld: no whole number of blocks%s", name,
              len, bsize, stride && len % stride == 0 ? "; the gap would divide: are they swapped?" : "");
    need_unit(site, name, "a length of", (unsigned long)len);
    need_unit(site, name, "a block size of", (unsigned long)bsize);
    need_unit(site, name, "a gap of", (unsigned long)stride);
}

static void check_ldm_range(int site, const char *name, const char *what, char *ldm, long len) {
    need_unit(site, name, what, (unsigned long)(uintptr_t)ldm);
    int owner = ldm_owner(ldm);
    if (owner == MAIN_MEMORY)
        fault(site, "calls %s with %s %s, which is not in the LDM", name, what, describe(ldm));
    if (owner >= 0 && owner != current->id)
        fault(site, "calls %s with %s in the LDM of CPE %d", name, what, owner);
    if (!is_own_ldm(ldm, len))
        fault(site, "calls %s with %s %s: %ld bytes go beyond the LDM", name, what, describe(ldm),
              len);
}

static void check_memory_range(int site, const char *name, const Request *r) {
    need_unit(site, name, "the main memory address", (unsigned long)(uintptr_t)r->memory);
    if (ldm_owner(r->memory) != MAIN_MEMORY)
        fault(site, "calls %s with %s of the LDM as main memory: are source and target swapped?",
              name, describe(r->memory));
    int where;
    long size, left = bytes_left(r->memory, &where, &size);
    long extent = r->len + (count_of_blocks(r) - 1) * r->stride;
    if (left >= 0 && extent > left)
        fault(site, "calls %s over %ld bytes of main memory, %ld beyond the end of the %ld that "
              "were allocated at %s%s", name, extent, extent - left, size, place(where),
              r->stride && r->bsize > r->stride && r->len % r->stride == 0
                  ? "; are block size and gap swapped?" : "");
}

static void check_reply(int site, const char *name, volatile int *reply) {
    if (!reply) fault(site, "calls %s without a reply", name);
    if ((uintptr_t)reply % 4) fault(site, "calls %s with a reply at no multiple of 4", name);
    if (!is_own_ldm(reply, 4))
        fault(site, "calls %s with a reply that is not in its LDM: %s", name, describe(reply));
}

static Request *make(const char *name, Kind kind, int site) {
    Request *r = calloc(1, sizeof *r);
    r->id = ++requests;
    r->kind = kind;
    r->name = name;
    r->cpe = current->id;
    r->dma_barriers = current->dma_barriers;
    r->site = site;
    return r;
}

/* Check a request against those that are under way, poison its target, and add it to them. */
static void submit(Request *r) {
    for (int i = 0; i < cpe_count(); ++i) {
        if (!has_part(r, &cpes[i])) continue;
        Range ranges[2];
        int count = ranges_at(r, &cpes[i], ranges);
        if (count == 2 && overlap(ranges[0].start, r->len, ranges[1].start, r->len))
            fault(r->site, "calls %s with a target that overlaps its source: %s", r->name,
                  describe(ranges[1].start));
        for (int n = 0; n < count; ++n) {
            Range at = ranges[n];
            for (Request *o = all_requests; o; o = o->next)
                if (is_open(o, &cpes[i]))
                    check_against(&cpes[i], o, at.start, r->len, at.is_target, r->site);
            if (at.is_target) memset(in_ldm_of(i, at.start), POISON, (size_t)r->len);
        }
    }
    r->unseen = 1ull << r->cpe;
    if (r->remote_reply) r->unseen |= r->targets;
    r->next = all_requests;
    all_requests = r;
    static const char *kinds[] = {"get", "put", "broadcast", "rma_put", "rma_get", "rma_broadcast"};
    long offset = r->kind <= BROADCAST ? (long)((uintptr_t)r->memory % 4096) : 0;
    trace_cpe(current, 'q', "%ld %s %ld %ld %ld %ld %d %d", r->id, kinds[r->kind],
              count_of_blocks(r), r->bsize, r->stride, offset, r->remote_reply != NULL,
              __builtin_popcountll(r->targets));
}

void transfer(const char *name, Kind kind, char *memory, char *ldm, long len, long bsize,
                     long stride, volatile int *reply, uint64_t targets) {
    int site = told_site(lw_call_site);
    check_sizes(site, name, len, bsize, stride);
    check_ldm_range(site, name, kind == PUT ? "a source" : "a target", ldm, len);
    check_reply(site, name, reply);
    Request *r = make(name, kind, site);
    r->memory = memory;
    r->ldm = ldm;
    r->len = len;
    r->bsize = bsize ? bsize : len;
    r->stride = stride;
    r->reply = reply;
    r->targets = targets;
    check_memory_range(site, name, r);
    submit(r);
}

int remote(const char *name, Kind kind, char *local, volatile int *local_reply, long len,
                  char *other, volatile int *remote_reply, uint64_t targets) {
    int site = told_site(lw_call_site);
    check_sizes(site, name, len, 0, 0);
    check_ldm_range(site, name, "the local address", local, len);
    check_ldm_range(site, name, "the remote address", other, len);
    if (local_reply) check_reply(site, name, local_reply);
    if (remote_reply) check_reply(site, name, remote_reply);
    if (!local_reply && !remote_reply) fault(site, "calls %s without a reply", name);
    Request *r = make(name, kind, site);
    r->ldm = local;
    r->memory = other;
    r->len = r->bsize = len;
    r->reply = local_reply;
    r->remote_reply = remote_reply;
    r->targets = targets;
    submit(r);
    if (!local_reply && kind != REMOTE_BROADCAST) r->unseen &= ~(1ull << r->cpe);
    return 0;
}

uint64_t targets_of(int which) {
    return which == ROW_OF_TEAM      ? row_members(current->id)
           : which == COLUMN_OF_TEAM ? column_members(current->id)
           : which == WHOLE_TEAM     ? team_members()
                                     : 0;
}

/* -- the end of a request ------------------------------------------------------------------------------- */

static void count_up(int cpe, volatile int *reply) {
    volatile int *word = in_ldm_of(cpe, as_named_by(cpe, reply));
    ++*word;
}

static void copy_blocks(const Request *r, int cpe) {
    char *ldm = in_ldm_of(cpe, as_named_by(cpe, r->ldm)), *memory = r->memory;
    for (long at = 0; at < r->len; at += r->bsize, memory += r->bsize + r->stride) {
        if (r->kind == PUT)
            memcpy(memory, ldm + at, (size_t)r->bsize);
        else
            memcpy(ldm + at, memory, (size_t)r->bsize);
    }
}

static void complete(Request *r) {
    int cpe = r->cpe;
    for (int i = 0; i < cpe_count(); ++i) {
        bool is_target = r->targets >> i & 1;
        char *here = in_ldm_of(cpe, r->ldm);
        switch (r->kind) {
        case GET: case PUT: if (i == cpe) copy_blocks(r, i); break;
        case BROADCAST: if (is_target) copy_blocks(r, i); break;
        case REMOTE_PUT:
            if (is_target) memmove(in_ldm_of(i, as_named_by(i, r->memory)), here, (size_t)r->len);
            break;
        case REMOTE_GET:
            if (is_target) memmove(here, in_ldm_of(i, as_named_by(i, r->memory)), (size_t)r->len);
            break;
        case REMOTE_BROADCAST:
            if (is_target)
                memmove(in_ldm_of(i, as_named_by(i, r->ldm)), in_ldm_of(cpe, r->memory), (size_t)r->len);
        }
        bool is_counted_below = i == cpe && r->reply == r->remote_reply;
        if (is_target && r->remote_reply && !is_counted_below) count_up(i, r->remote_reply);
    }
    if (r->reply) count_up(cpe, r->reply);
    r->is_done = true;
    ++progress;
}

/* Others may use what this brought to them once they know that the issuer has seen its end. */
static void leave_arrivals(Request *r) {
    for (int i = 0; i < cpe_count(); ++i) {
        if (!(r->targets >> i & 1) || i == r->cpe || r->kind == REMOTE_GET) continue;
        if (r->remote_reply && !(r->unseen >> i & 1)) continue; /* it has seen it by itself */
        Range ranges[2];
        ranges_at(r, &cpes[i], ranges);
        Arrival *a = malloc(sizeof *a);
        *a = (Arrival){cpes[i].arrivals, ranges[0].start, r->len, r->cpe, r->site,
                       cpes[r->cpe].clocks[r->cpe]};
        cpes[i].arrivals = a;
    }
}

/* A CPE has seen that a request is done. */
static void observe(Cpe *cpe, Request *r) {
    bool is_issuer = cpe->id == r->cpe;
    r->unseen &= ~(1ull << cpe->id);
    trace_cpe(cpe, 'w', "%ld", r->id);
    if (!is_issuer) {
        for (Arrival **at = &cpe->arrivals; *at;) {
            Arrival *a = *at;
            if (a->site == r->site && a->from == r->cpe) {
                *at = a->next;
                free(a);
            } else {
                at = &a->next;
            }
        }
        return;
    }
    if (r->kind <= BROADCAST) {
        char *block = r->memory;
        long barriers = cpe->dma_barriers;
        cpe->dma_barriers = r->dma_barriers; /* what counts is when it was issued */
        for (long n = count_of_blocks(r); n > 0; --n, block += r->bsize + r->stride)
            note_access(cpe->id, block, r->bsize, r->kind == PUT, r->site, r->name);
        cpe->dma_barriers = barriers;
        if (r->kind == GET && r->dma_barriers > cpe->landed) cpe->landed = r->dma_barriers;
    }
    if (is_strict && r->kind == GET) {
        Arrival *a = malloc(sizeof *a);
        *a = (Arrival){cpe->unfenced, r->ldm, r->len, cpe->id, r->site, 0};
        cpe->unfenced = a;
    }
    r->seen = cpe->clocks[cpe->id];
    leave_arrivals(r);
}

static void forget_seen(void) {
    for (Request **at = &all_requests; *at;) {
        Request *r = *at;
        if (r->unseen) {
            at = &r->next;
        } else {
            *at = r->next;
            free(r);
        }
    }
}

int athread_dma_barrier(void) {
    Cpe *cpe = need_cpe("athread_dma_barrier");
    for (Request *r = all_requests; r; r = r->next)
        if (r->cpe == cpe->id && !r->is_done && r->kind <= BROADCAST) complete(r);
    ++cpe->dma_barriers;
    return 0;
}

static bool is_reply_of(const Request *r, const Cpe *cpe, const volatile void *reply) {
    if (r->cpe == cpe->id && r->reply == reply) return true;
    return r->remote_reply && r->targets >> cpe->id & 1 &&
           as_named_by(cpe->id, r->remote_reply) == reply;
}

bool is_reply(Cpe *cpe, const volatile void *address) {
    for (Request *r = all_requests; r; r = r->next)
        if (is_reply_of(r, cpe, address)) return true;
    return false;
}

/* A CPE has looked at a reply: it knows which requests have counted to it. */
static bool see_ended(Cpe *cpe, const volatile void *reply) {
    bool has_seen = false;
    for (Request *r = all_requests; r; r = r->next) {
        if (!r->is_done || !(r->unseen >> cpe->id & 1) || !is_reply_of(r, cpe, reply)) continue;
        observe(cpe, r);
        has_seen = true;
    }
    if (has_seen) forget_seen();
    return has_seen;
}

/* A CPE looks at a reply: one request that counts to it ends, drawn among them. */
bool poll_reply(Cpe *cpe, const volatile void *reply) {
    unsigned waiting = 0;
    for (Request *r = all_requests; r; r = r->next)
        if (!r->is_done && is_reply_of(r, cpe, reply)) ++waiting;
    if (waiting) {
        unsigned chosen = draw(waiting);
        for (Request *r = all_requests; r; r = r->next)
            if (!r->is_done && is_reply_of(r, cpe, reply) && chosen-- == 0) {
                complete(r);
                break;
            }
    }
    return see_ended(cpe, reply);
}

void check_no_request_left(Cpe *cpe) {
    for (Request *r = all_requests; r; r = r->next)
        if (r->cpe == cpe->id && r->unseen >> cpe->id & 1 && r->reply)
            fault(r->site, "ends with the %s of this line in flight: nothing waits for its reply",
                  r->name);
}

void describe_reply(Cpe *cpe, const volatile void *reply, char *text, size_t size) {
    if (!reply || ldm_owner(reply) == MAIN_MEMORY) return;
    int value = *(volatile int *)in_ldm_of(cpe->id, reply);
    snprintf(text, size, " for '%s', which stays %d: no transfer that counts to it is under way%s",
             describe(reply), value,
             value > 0 ? "; was it reset, and is this the number of its requests?" : "");
}

void wait_for(const char *name, volatile int *reply, int value) {
    int site = told_site(lw_call_site);
    Cpe *cpe = need_cpe(name);
    check_reply(site, name, reply);
    while (*reply != value) {
        if (poll_reply(cpe, reply)) continue;
        if (*reply > value)
            fault(site, "waits for %d in '%s', which is %d already: it was not reset", value,
                  describe(reply), *reply);
        cpe->polled = reply;
        poll_again(site);
        lw_call_site = site;
    }
    see_ended(cpe, reply);
}
