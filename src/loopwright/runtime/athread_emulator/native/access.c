/* What instrumented code calls: before each access to memory and in each basic block, with the site,
 * and in place of some functions of the library; for these `lw_call_site` says where. */

#include "emulator.h"

enum { READS_IN_TURN = 200000, POLLS_IN_TURN = 20 }; /* without a write, before others run */
static const long MOST_IDLE_BLOCKS = 100l * 1000 * 1000, MOST_IDLE_READS = 2000l * 1000 * 1000;

int told_site(int site) {
    return lw_sites[site].is_helper && current && current->caller ? current->caller : site;
}

static void access_main_memory(Cpe *cpe, const volatile char *start, long bytes, bool is_write) {
    ++cpe->work.global_accesses;
    note_access(cpe->id, (const char *)start, bytes, is_write, lw_call_site, NULL);
}

static void check_access(Cpe *cpe, const volatile char *start, long bytes, bool is_write) {
    int owner = ldm_owner(start);
    cpe->work.accesses += (bytes + 31) / 32;
    cpe->work.block_accesses += (bytes + 31) / 32;
    cpe->idle_blocks = 0;
    if (owner == MAIN_MEMORY) {
        access_main_memory(cpe, start, bytes, is_write);
    } else if (owner >= 0 && owner != cpe->id) {
        fault(lw_call_site, "%s an address in the LDM of CPE %d", is_write ? "writes" : "reads",
              owner);
    } else {
        check_ldm_access(cpe, start, bytes, is_write, lw_call_site);
    }
}

void lw_block(int at) {
    Cpe *cpe = current;
    if (!cpe) return;
    const struct lw_site *site = &lw_sites[at];
    if (site->is_helper && !lw_sites[lw_call_site].is_helper) cpe->caller = lw_call_site;
    lw_call_site = at = told_site(at);
    cpe->work.quarter_cycles = quarter_cycles(&cpe->work);
    cpe->work.block_quarters = site->quarter_slots;
    cpe->work.block_accesses = 1;
    cpe->work.quarter_slots += site->quarter_slots;
    cpe->work.flops += site->flops;
    ++cpe->work.accesses; /* the branch takes a slot of the pipeline that loads and stores use */
    check_stack(cpe, __builtin_frame_address(0), at);
    if (++cpe->idle_blocks > MOST_IDLE_BLOCKS)
        fault(at, "loops without an end and without touching memory: is a variable that it waits "
              "for not volatile?");
}

static void cpe_reads(Cpe *cpe, const volatile char *start, long bytes) {
    int site = lw_call_site;
    cpe->same_reads = cpe->polled == start ? cpe->same_reads + 1 : 0;
    cpe->polled = start;
    if (is_reply(cpe, start) && poll_reply(cpe, start)) cpe->same_reads = 0;
    check_access(cpe, start, bytes, false);
    if (++cpe->idle_reads > MOST_IDLE_READS)
        fault(site, "reads memory without an end and writes nothing");
    if (bytes <= 8 && cpe->same_reads > POLLS_IN_TURN)
        poll_again(site);
    else if (cpe->idle_reads % READS_IN_TURN == 0)
        wait_here(READY, site);
    else
        return;
    lw_call_site = site;
}

static void cpe_writes(Cpe *cpe, const volatile char *start, long bytes) {
    cpe->idle_reads = 0;
    cpe->polled = NULL;
    check_access(cpe, start, bytes, true);
}

static void host_access(const volatile char *start, long bytes, bool is_write) {
    static const volatile char *last;
    static int polls;
    if (ldm_owner(start) != MAIN_MEMORY)
        fault(lw_call_site, "the host %s an address of the LDM: %s", is_write ? "writes" : "reads",
              describe(start));
    if (!team_is_active) return;
    note_access(HOST, (const char *)start, bytes, is_write, lw_call_site, NULL);
    polls = start == last && !is_write ? polls + 1 : 0;
    last = start;
    if (polls > POLLS_IN_TURN) run_team_once();
}

static void any_access(const volatile void *start, long bytes, bool is_write) {
    if (!bytes) return;
    if (!current)
        host_access(start, bytes, is_write);
    else if (is_write)
        cpe_writes(current, start, bytes);
    else
        cpe_reads(current, start, bytes);
}

#define ACCESS(bytes)                                                                              \
    void lw_read##bytes(const volatile void *start, int site) {                                    \
        lw_call_site = told_site(site);                                                            \
        any_access(start, bytes, false);                                                           \
    }                                                                                              \
    void lw_write##bytes(const volatile void *start, int site) {                                   \
        lw_call_site = told_site(site);                                                            \
        any_access(start, bytes, true);                                                            \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

void lw_read_range(const volatile void *start, long bytes, int site) {
    lw_call_site = told_site(site);
    any_access(start, bytes, false);
}

void lw_write_range(const volatile void *start, long bytes, int site) {
    lw_call_site = told_site(site);
    any_access(start, bytes, true);
}

/* Compilers call these beside those above. */
void __tsan_init(void) {}
void __tsan_func_entry(void *caller) {
    (void)caller;
}
void __tsan_func_exit(void) {}
void __asan_handle_no_return(void) {}

void lw_need_aligned(const volatile void *address, size_t bytes) {
    /* The host's compiler aligns arrays on the stack to 16 bytes, Sunway's to whole vectors. */
    if (bytes > 16 && ldm_owner(address) >= 0) bytes = 16;
    if ((uintptr_t)address % bytes)
        fault(lw_call_site, "loads or stores a vector of %zu bytes at %s, %zu bytes beyond a "
              "multiple", bytes, describe(address), (size_t)((uintptr_t)address % bytes));
}

/* -- functions of the library -------------------------------------------------------------------------- */

void *lw_memcpy(void *to, const void *from, size_t bytes) {
    any_access(from, (long)bytes, false);
    any_access(to, (long)bytes, true);
    return memcpy(to, from, bytes);
}

void *lw_memmove(void *to, const void *from, size_t bytes) {
    any_access(from, (long)bytes, false);
    any_access(to, (long)bytes, true);
    return memmove(to, from, bytes);
}

void *lw_memset(void *to, int value, size_t bytes) {
    any_access(to, (long)bytes, true);
    return memset(to, value, bytes);
}

void *lw_malloc(size_t bytes) {
    int site = lw_call_site;
    void *start = malloc(bytes);
    note_allocation(start, bytes, site);
    return start;
}

void *lw_calloc(size_t count, size_t bytes) {
    int site = lw_call_site;
    void *start = calloc(count, bytes);
    note_allocation(start, count * bytes, site);
    return start;
}

void *lw_realloc(void *old, size_t bytes) {
    int site = lw_call_site;
    forget_allocation(old);
    void *start = realloc(old, bytes);
    note_allocation(start, bytes, site);
    return start;
}

void *lw_aligned_alloc(size_t alignment, size_t bytes) {
    int site = lw_call_site;
    void *start = NULL;
    if (posix_memalign(&start, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes))
        return NULL;
    note_allocation(start, bytes, site);
    return start;
}

int lw_posix_memalign(void **start, size_t alignment, size_t bytes) {
    int site = lw_call_site, status = posix_memalign(start, alignment, bytes);
    if (!status) note_allocation(*start, bytes, site);
    return status;
}

void lw_free(void *start) {
    if (ldm_owner(start) != MAIN_MEMORY)
        fault(lw_call_site, "%sfrees an address of the LDM: %s", current ? "" : "the host ",
              describe(start));
    forget_allocation(start);
    free(start);
}
