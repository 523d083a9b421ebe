/* CPEs as fibres, the team that the host starts, barriers, and who runs next. */

#include "emulator.h"

static Cpe cpes[MOST_CPES];
static Cpe *current;
static Clock host_clocks[CLOCKS];
static bool team_is_active;
static long progress;
int lw_call_site;

enum { POLLING_ROUNDS = 40 }; /* in which nothing changes before all are said to be stuck */

static void *host_context;
static int wanted_threads;
static uint64_t started; /* CPEs that have not been joined */
static bool is_set_up;
static uint64_t random_state;

/* -- switching stacks ------------------------------------------------------------------------------ */

#if defined(__APPLE__)
#define LW_SYMBOL(name) "_" name
#else
#define LW_SYMBOL(name) name
#endif

/* Keep the registers that a call keeps on the stack, store its pointer in *from, go on at `to`. */
void lw_switch(void **from, void *to);

#if defined(__aarch64__)
__asm__(".text\n.p2align 2\n.globl " LW_SYMBOL("lw_switch") "\n" LW_SYMBOL("lw_switch") ":\n"
        "sub sp, sp, #160\n"
        "stp x19, x20, [sp, #0]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\n"
        "stp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
        "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\n"
        "stp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        "ldp x19, x20, [sp, #0]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\n"
        "ldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\n"
        "ldp d14, d15, [sp, #144]\n"
        "add sp, sp, #160\nret\n");
enum { FRAME_WORDS = 20, RETURN_WORD = 11 };
#elif defined(__x86_64__)
__asm__(".text\n.globl " LW_SYMBOL("lw_switch") "\n" LW_SYMBOL("lw_switch") ":\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
enum { FRAME_WORDS = 8, RETURN_WORD = 6 };
#else
#error "the emulator has fibres for aarch64 and x86_64"
#endif

static void to_host(void) {
    lw_switch(&current->context, host_context);
}

static void run_function(void) {
    Cpe *self = current;
    self->function(self->argument);
    check_no_request_left(self);
    trace_cpe(self, 'e', "%ld", static_bytes() + self->heap_used + self->stack_used);
    self->state = ENDED;
    ++progress;
    to_host();
}

static void resume(Cpe *cpe) {
    current = cpe;
    cpe->state = READY;
    swap_in(cpe);
    lw_switch(&host_context, cpe->context);
    swap_out(cpe);
    current = NULL;
}

static void start(Cpe *cpe, void *function, void *argument) {
    poison_stack(cpe);
    uintptr_t *frame = (uintptr_t *)cpe->stack_top - FRAME_WORDS;
    memset(frame, 0, FRAME_WORDS * sizeof *frame);
    frame[RETURN_WORD] = (uintptr_t)run_function;
    cpe->context = frame;
    cpe->function = (void (*)(void *))function;
    cpe->argument = argument;
    cpe->state = READY;
    cpe->stack_used = 0;
    join_clocks(cpe->clocks, host_clocks);
    ++cpe->clocks[cpe->id];
    started |= 1ull << cpe->id;
}

/* -- the mesh ---------------------------------------------------------------------------------------- */

int cpe_count(void) {
    return lw_machine.rows * lw_machine.columns;
}

int row_of(int cpe) {
    return cpe / lw_machine.columns;
}

int column_of(int cpe) {
    return cpe % lw_machine.columns;
}

uint64_t team_members(void) {
    return started;
}

uint64_t row_members(int cpe) {
    uint64_t row = (1ull << lw_machine.columns) - 1;
    return started & row << row_of(cpe) * lw_machine.columns;
}

uint64_t column_members(int cpe) {
    uint64_t members = 0;
    for (int row = 0; row < lw_machine.rows; ++row)
        members |= 1ull << (row * lw_machine.columns + column_of(cpe));
    return started & members;
}

Cpe *need_cpe(const char *name) {
    if (!current) fault(lw_call_site, "the host calls %s, which only a CPE can", name);
    current->idle_reads = current->idle_blocks = 0;
    lw_call_site = told_site(lw_call_site);
    return current;
}

unsigned draw(unsigned limit) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)((random_state >> 32) % limit);
}

/* -- who runs next ------------------------------------------------------------------------------------ */

void wait_here(State state, int site) {
    current->state = state;
    current->site = site;
    to_host();
}

void poll_again(int site) {
    wait_here(POLLING, site);
    current->same_reads = 0;
}

static const char *waits_for(const Cpe *cpe) {
    static const char *scopes[] = {"row", "column", "array"};
    static char text[64];
    switch (cpe->state) {
    case AT_BARRIER:
        snprintf(text, sizeof text, "at the %s barrier", scopes[cpe->barrier]);
        return text;
    case RECEIVING: return "for a message that nobody sends";
    case SENDING: return "to send a message that nobody takes";
    case POLLING: return "for a value that does not change";
    case ENDED: return "no more";
    default: return "to run";
    }
}

/* One line for each place where CPEs of the team are, those that have ended last. */
static void tell_places(char *text, size_t size) {
    uint64_t told = 0;
    size_t n = 0;
    for (int ended = 0; ended < 2; ++ended)
        for (int i = 0; i < cpe_count(); ++i) {
            Cpe *cpe = &cpes[i];
            bool is_told = told >> i & 1 || !(started >> i & 1);
            if (is_told || (cpe->state == ENDED) != ended || n + 300 > size) continue;
            int count = 0;
            for (int j = i; j < cpe_count(); ++j) {
                bool is_same = cpes[j].state == cpe->state && (ended || cpes[j].site == cpe->site);
                if (!(started >> j & 1) || !is_same) continue;
                told |= 1ull << j;
                ++count;
            }
            const char *more = count > 1 ? ", ..." : "";
            n += (size_t)(ended ? snprintf(text + n, size - n, "\n  %d ended (CPE %d%s)", count, i, more)
                                : snprintf(text + n, size - n, "\n  %d wait %s at %s (CPE %d%s)",
                                           count, waits_for(cpe), place(cpe->site), i, more));
        }
}

static _Noreturn void report_stuck(void) {
    char text[3000], reply[600] = "";
    Cpe *first = NULL;
    for (int i = cpe_count(); i-- > 0;)
        if (started >> i & 1 && cpes[i].state != ENDED && (!first || first->state != POLLING ||
                                                           cpes[i].state == POLLING))
            first = &cpes[i];
    tell_places(text, sizeof text);
    if (first->state == POLLING) {
        describe_reply(first, first->polled, reply, sizeof reply);
        fault(first->site, "CPE %d waits for ever%s%s", first->id, reply, text);
    }
    fault(first->site, "no CPE can go on:%s", text);
}

void run_team_once(void) {
    static long seen = -1;
    static int idle_rounds;
    int order[MOST_CPES], count = 0;
    bool has_run = false, is_only_polling = true;
    for (int i = 0; i < cpe_count(); ++i)
        if (started >> i & 1) order[count++] = i;
    for (int i = count; i > 1; --i) {
        int j = (int)draw((unsigned)i), swapped = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swapped;
    }
    for (int i = 0; i < count; ++i) {
        Cpe *cpe = &cpes[order[i]];
        if (cpe->state != READY && cpe->state != POLLING) continue;
        has_run = true;
        if (cpe->state == READY) is_only_polling = false;
        resume(cpe);
    }
    if (!is_only_polling || progress != seen) idle_rounds = 0;
    seen = progress;
    if (!has_run || ++idle_rounds > POLLING_ROUNDS) report_stuck();
}

static bool all_ended(uint64_t mask) {
    for (int i = 0; i < cpe_count(); ++i)
        if (mask >> i & 1 && cpes[i].state != ENDED) return false;
    return true;
}

/* -- barriers ---------------------------------------------------------------------------------------- */

static void release(uint64_t members) {
    Clock joined[CLOCKS] = {0};
    for (int i = 0; i < cpe_count(); ++i)
        if (members >> i & 1) join_clocks(joined, cpes[i].clocks);
    for (int i = 0; i < cpe_count(); ++i) {
        if (!(members >> i & 1)) continue;
        memcpy(cpes[i].clocks, joined, sizeof joined);
        ++cpes[i].clocks[i];
        forget_arrivals(&cpes[i]);
        if (cpes[i].state == AT_BARRIER) cpes[i].state = READY;
    }
    if (members == started) start_phase();
    ++progress;
}

static void barrier(Cpe *self, int which, int site) {
    uint64_t members = which == 0   ? row_members(self->id)
                       : which == 1 ? column_members(self->id)
                                    : team_members();
    int count = __builtin_popcountll(members), group = which == 0   ? row_of(self->id)
                                                       : which == 1 ? column_of(self->id)
                                                                    : 0;
    trace_cpe(self, 'b', "%d %d %d", which, group, count);
    self->barrier = which;
    self->state = AT_BARRIER;
    self->site = site;
    bool is_last = true;
    for (int i = 0; i < cpe_count(); ++i) {
        if (!(members >> i & 1)) continue;
        is_last &= cpes[i].state == AT_BARRIER && cpes[i].barrier == which;
    }
    if (is_last)
        release(members);
    else
        to_host();
}

static int synchronise(const char *name, int which, int mask) {
    int site = told_site(lw_call_site);
    Cpe *self = need_cpe(name);
    int whole = which == 2 ? 0xffff : 0xff;
    if (which < 0 || which > 2) fault(site, "calls %s with a scope of %d", name, which);
    if (mask != whole)
        fault(site, "calls %s with mask %#x; the emulator has barriers of whole rows, columns and "
              "arrays: %#x", name, mask, whole);
    barrier(self, which, site);
    return 0;
}

int athread_syn(int which, int mask) {
    return synchronise("athread_syn", which, mask);
}

int athread_ssync(int which, int mask) {
    return synchronise("athread_ssync", which, mask);
}

int athread_ssync_array(void) {
    return synchronise("athread_ssync_array", 2, 0xffff);
}

int athread_ssync_row(void) {
    return synchronise("athread_ssync_row", 0, 0xff);
}

int athread_ssync_col(void) {
    return synchronise("athread_ssync_col", 1, 0xff);
}

/* -- the host's side ---------------------------------------------------------------------------------- */

static void at_exit(void) {
    if (team_is_active)
        fault(lw_call_site, "the program ends while CPEs run: athread_join is missing");
    close_trace();
}

__attribute__((constructor)) static void before_main(void) {
    set_up_faults();
}

int athread_init(void) {
    if (is_set_up) return 0;
    is_set_up = true;
    open_trace();
    const char *seed = getenv("ATHREAD_SEED");
    random_state = (seed ? strtoull(seed, NULL, 10) : 0) * 0x9E3779B97F4A7C15ull;
    random_state += 0x2545F4914F6CDD1Dull;
    if (random_state == 0) random_state = 1;
    for (int i = 0; i < cpe_count(); ++i) cpes[i].id = i;
    wanted_threads = cpe_count();
    for (int i = 0; i < CLOCKS; ++i) host_clocks[i] = 0;
    host_clocks[HOST] = 1;
    set_up_ldm();
    set_up_order();
    atexit(at_exit);
    return 0;
}

static void need_host(const char *name) {
    if (current) fault(lw_call_site, "calls %s, which only the host can", name);
    if (!is_set_up)
        fault(lw_call_site, "the host calls %s before athread_init", name);
}

int athread_halt(void) {
    need_host("athread_halt");
    if (team_is_active) fault(lw_call_site, "the host calls athread_halt before athread_join");
    return 0;
}

int __real_athread_spawn_group(unsigned long mask, void *function, void *argument) {
    need_host("athread_spawn");
    if (team_is_active)
        fault(lw_call_site, "the host starts a team while another one runs: athread_join is missing");
    if (ldm_owner(argument) != MAIN_MEMORY)
        fault(lw_call_site, "the host passes an address of the LDM, %s, as argument",
              describe(argument));
    trace_host("S %d %s", __builtin_popcountl(mask), place(lw_call_site));
    for (int i = 0; i < cpe_count(); ++i)
        if (mask >> i & 1) start(&cpes[i], function, argument);
    ++host_clocks[HOST];
    start_phase();
    team_is_active = true;
    return 0;
}

int __real_athread_spawn(void *function, void *argument, ...) {
    uint64_t all = wanted_threads == 64 ? ~0ull : (1ull << wanted_threads) - 1;
    return __real_athread_spawn_group(all, function, argument);
}

int __real_athread_create(int id, void *function, void *argument) {
    need_host("athread_create");
    if (id < 0 || id >= cpe_count())
        fault(lw_call_site, "the host starts CPE %d; there are 0 to %d", id, cpe_count() - 1);
    if (started >> id & 1) fault(lw_call_site, "the host starts CPE %d, which runs", id);
    trace_host("S 1 %s", place(lw_call_site));
    start(&cpes[id], function, argument);
    ++host_clocks[HOST];
    team_is_active = true;
    return 0;
}

static int join(uint64_t mask) {
    mask &= started;
    int site = told_site(lw_call_site);
    while (!all_ended(mask)) run_team_once();
    lw_call_site = site;
    for (int i = 0; i < cpe_count(); ++i)
        if (mask >> i & 1) {
            join_clocks(host_clocks, cpes[i].clocks);
            cpes[i].state = IDLE;
        }
    started &= ~mask;
    team_is_active = started != 0;
    if (!started) {
        check_no_message_left();
        trace_host("J");
    }
    return 0;
}

int athread_join(void) {
    need_host("athread_join");
    if (!team_is_active) fault(lw_call_site, "the host calls athread_join, but no CPE runs");
    return join(~0ull);
}

int athread_join_group(unsigned long mask) {
    need_host("athread_join_group");
    return join(mask);
}

int athread_wait(int id) {
    need_host("athread_wait");
    return join(1ull << id);
}

int athread_end(int id) {
    return athread_wait(id);
}

int athread_set_num_threads(int count) {
    need_host("athread_set_num_threads");
    if (count < 1 || count > cpe_count())
        fault(lw_call_site, "the host wants %d CPEs; there are %d", count, cpe_count());
    wanted_threads = count;
    return count;
}

int athread_get_num_threads(void) {
    return wanted_threads ? wanted_threads : cpe_count();
}

int athread_get_max_threads(void) {
    return cpe_count();
}

int athread_idle(void) {
    return cpe_count() - __builtin_popcountll(started);
}

/* -- who a CPE is, and what time it is ----------------------------------------------------------------- */

/* Cycles of its work; waits take none. */
static long cycles_of(const Cpe *cpe) {
    return cpe->cycles + quarter_cycles(&cpe->work) / 4;
}

unsigned long athread_time_cycle(void) {
    if (current) return (unsigned long)cycles_of(current);
    long most = 0;
    for (int i = 0; i < cpe_count(); ++i) most = cpes[i].cycles > most ? cpes[i].cycles : most;
    return (unsigned long)most;
}

unsigned long athread_stime_cycle(void) {
    return athread_time_cycle();
}

long lw_csr(int number) {
    if (!current) fault(lw_call_site, "the host asks for the number of a CPE");
    int id = current->id;
    switch (number) {
    case 0: return id;
    case 1: return row_of(id);
    case 2: return column_of(id);
    case 4: return cycles_of(current);
    }
    fault(lw_call_site, "reads control register %d, which is not emulated", number);
}

int athread_get_id(int core) {
    need_cpe("athread_get_id");
    return core < 0 ? current->id : core;
}

void athread_memory_barrier(void) {
    if (current) forget_unfenced(current);
}
