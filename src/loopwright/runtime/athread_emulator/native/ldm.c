/* The LDM of each CPE: variables of the program, heap and stack, and how much of it they take.
 *
 * Variables of the LDM have one address for all CPEs, as on the machine. The bytes of the CPE that
 * runs lie there, those of the others in a copy. Heaps and stacks lie at a fixed distance from CPE
 * to CPE, so that an address of one CPE can be turned into that of another.
 */

#include "emulator.h"

#include <sys/mman.h>

/* What the stack may take beyond the LDM: functions of the host's library need more than those of
 * a CPE. The program's own part is held against the LDM in check_stack. */
static const long STACK_BYTES = 8l << 20;
static const long GUARD_BYTES = 64l << 10;

#if defined(__APPLE__)
extern char lw_statics_start __asm("section$start$__DATA$lw_ldm");
extern char lw_statics_end __asm("section$end$__DATA$lw_ldm");
extern struct lw_variable lw_variables_start __asm("section$start$__DATA$lw_variables");
extern struct lw_variable lw_variables_end __asm("section$end$__DATA$lw_variables");
#define STATICS (&lw_statics_start)
#define STATICS_END (&lw_statics_end)
#define VARIABLES (&lw_variables_start)
#define VARIABLES_END (&lw_variables_end)
#else
extern char __start_lw_ldm[] __attribute__((weak)), __stop_lw_ldm[] __attribute__((weak));
extern struct lw_variable __start_lw_variables[] __attribute__((weak));
extern struct lw_variable __stop_lw_variables[] __attribute__((weak));
#define STATICS __start_lw_ldm
#define STATICS_END __stop_lw_ldm
#define VARIABLES __start_lw_variables
#define VARIABLES_END __stop_lw_variables
#endif

typedef struct {
    char *start;
    long bytes;
    int site;
} Piece; /* of a heap */

enum { MOST_PIECES = 256 };

static char *regions; /* of each CPE: guard, stack, heap */
static long region_bytes;
static Piece pieces[MOST_CPES][MOST_PIECES];

long static_bytes(void) {
    return STATICS ? STATICS_END - STATICS : 0;
}

void set_up_ldm(void) {
    region_bytes = GUARD_BYTES + STACK_BYTES + lw_machine.ldm_bytes;
    regions = mmap(NULL, (size_t)(region_bytes * cpe_count()), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (regions == MAP_FAILED) fault(lw_call_site, "the host has no memory for the CPEs' stacks");
    for (int i = 0; i < cpe_count(); ++i) {
        char *region = regions + i * region_bytes;
        mprotect(region, (size_t)GUARD_BYTES, PROT_NONE);
        cpes[i].stack_top = region + GUARD_BYTES + STACK_BYTES;
        memset(cpes[i].stack_top, POISON, (size_t)lw_machine.ldm_bytes);
        cpes[i].statics = malloc((size_t)static_bytes() + 1);
        if (static_bytes()) memcpy(cpes[i].statics, STATICS, (size_t)static_bytes());
    }
    if (static_bytes()) memset(STATICS, POISON, (size_t)static_bytes());
    require_ldm(&cpes[0], lw_call_site);
}

void poison_stack(Cpe *cpe) {
    memset(cpe->stack_top - lw_machine.ldm_bytes, POISON, (size_t)lw_machine.ldm_bytes);
}

void swap_in(Cpe *cpe) {
    if (static_bytes()) memcpy(STATICS, cpe->statics, (size_t)static_bytes());
}

void swap_out(Cpe *cpe) {
    if (static_bytes()) memcpy(cpe->statics, STATICS, (size_t)static_bytes());
}

int ldm_owner(const volatile void *address) {
    const volatile char *at = address;
    if (static_bytes() && at >= STATICS && at < STATICS_END) return NOBODY;
    if (regions && at >= regions && at < regions + region_bytes * cpe_count())
        return (int)((at - regions) / region_bytes);
    return MAIN_MEMORY;
}

bool is_own_ldm(const volatile void *address, long bytes) {
    const volatile char *end = (const volatile char *)address + bytes - 1;
    int owner = ldm_owner(address);
    return owner == ldm_owner(end) && (owner == NOBODY || (current && owner == current->id));
}

void *in_ldm_of(int cpe, const volatile void *address) {
    const volatile char *at = address;
    int owner = ldm_owner(address);
    if (owner == NOBODY)
        return current && current->id == cpe ? (void *)at : cpes[cpe].statics + (at - STATICS);
    return (void *)(at + (cpe - owner) * region_bytes);
}

void *as_named_by(int cpe, const volatile void *address) {
    int owner = ldm_owner(address);
    return owner < 0 ? (void *)address
                     : (void *)((const volatile char *)address + (cpe - owner) * region_bytes);
}

unsigned lw_dma_reply(void *reply) {
    int owner = ldm_owner(reply);
    if (owner == MAIN_MEMORY) fault(lw_call_site, "names a reply that is not in the LDM");
    if (owner == NOBODY) return (unsigned)((char *)reply - STATICS) + 1;
    return 0x80000000u | (unsigned)((char *)reply - regions - owner * region_bytes);
}

void *lw_reply_of(unsigned word) {
    if (!word) return NULL;
    if (!(word & 0x80000000u)) return STATICS + word - 1;
    return regions + current->id * region_bytes + (word & 0x7fffffffu);
}

/* -- how much is used -------------------------------------------------------------------------------- */

/* The LDM of a CPE as a table of its variables, heap and stack, the largest first. */
static int map_of(Cpe *cpe, char *text, size_t size) {
    long used = static_bytes() + cpe->heap_used + cpe->stack_used;
    int n = snprintf(text, size, "\nLDM of CPE %d: %ld of %ld bytes", cpe->id, used,
                     lw_machine.ldm_bytes);
    const struct lw_variable *last = NULL;
    for (const struct lw_variable *v = VARIABLES; v && v < VARIABLES_END; ++v) {
        const struct lw_variable *next = NULL; /* the largest of those that are smaller than last */
        for (const struct lw_variable *o = VARIABLES; o < VARIABLES_END; ++o) {
            bool is_after = !last || o->bytes < last->bytes || (o->bytes == last->bytes && o > last);
            if (is_after && (!next || o->bytes > next->bytes)) next = o;
        }
        if (!next || n > (int)size - 200) break;
        n += snprintf(text + n, size - (size_t)n, "\n  %8ld  variable %s", next->bytes, next->name);
        last = next;
    }
    for (Piece *p = pieces[cpe->id]; p < pieces[cpe->id] + MOST_PIECES; ++p)
        if (p->bytes && n < (int)size - 200)
            n += snprintf(text + n, size - (size_t)n, "\n  %8ld  ldm_malloc of %s", p->bytes,
                          place(p->site));
    if (cpe->stack_used)
        n += snprintf(text + n, size - (size_t)n, "\n  %8ld  stack, deepest at %s", cpe->stack_used,
                      place(cpe->deepest));
    return n;
}

void require_ldm(Cpe *cpe, int site) {
    long used = static_bytes() + cpe->heap_used + cpe->stack_used;
    if (used <= lw_machine.ldm_bytes) return;
    char text[2500];
    map_of(cpe, text, sizeof text);
    fault(site, "%sthe LDM overflows by %ld bytes%s", current ? "finds that " : "",
          used - lw_machine.ldm_bytes, text);
}

void check_stack(Cpe *cpe, const char *stack_pointer, int site) {
    long used = cpe->stack_top - stack_pointer;
    if (used <= cpe->stack_used) return;
    cpe->stack_used = used;
    cpe->deepest = site;
    require_ldm(cpe, site);
}

/* -- the heap: first fit, in order of addresses -------------------------------------------------------- */

void *ldm_malloc(size_t bytes) {
    int site = told_site(lw_call_site);
    Cpe *cpe = need_cpe("ldm_malloc");
    long wanted = (long)((bytes + 63) & ~63ul);
    if (wanted == 0) return NULL;
    Piece *own = pieces[cpe->id], *free_entry = NULL;
    char *at = cpe->stack_top;
    for (bool has_moved = true; has_moved;) {
        has_moved = false;
        for (Piece *p = own; p < own + MOST_PIECES; ++p) {
            if (!p->bytes) {
                free_entry = p;
            } else if (at < p->start + p->bytes && p->start < at + wanted) {
                at = p->start + p->bytes;
                has_moved = true;
            }
        }
    }
    cpe->heap_used += wanted;
    if (!free_entry) fault(site, "has more than %d pieces of ldm_malloc", MOST_PIECES);
    free_entry->start = at;
    free_entry->bytes = wanted;
    free_entry->site = site;
    require_ldm(cpe, site);
    if (at + wanted > cpe->stack_top + lw_machine.ldm_bytes)
        fault(site, "finds no %ld bytes in one piece in the heap of the LDM", wanted);
    memset(at, POISON, (size_t)wanted);
    return at;
}

void ldm_free(void *start, size_t bytes) {
    int site = told_site(lw_call_site);
    Cpe *cpe = need_cpe("ldm_free");
    if (!start) return;
    for (Piece *p = pieces[cpe->id]; p < pieces[cpe->id] + MOST_PIECES; ++p) {
        if (!p->bytes || p->start != start) continue;
        long wanted = (long)((bytes + 63) & ~63ul);
        if (wanted != p->bytes)
            fault(site, "frees %zu bytes of a piece of %ld, which ldm_malloc gave at %s", bytes,
                  p->bytes, place(p->site));
        check_ldm_access(cpe, start, p->bytes, true, site);
        cpe->heap_used -= p->bytes;
        p->bytes = 0;
        return;
    }
    fault(site, "frees an address that ldm_malloc did not give");
}

long get_allocatable_size(void) {
    Cpe *cpe = need_cpe("get_allocatable_size");
    return lw_machine.ldm_bytes - static_bytes() - cpe->heap_used - cpe->stack_used;
}

/* -- names for messages --------------------------------------------------------------------------------- */

const char *describe(const volatile void *address) {
    static char text[256];
    const volatile char *at = address;
    int owner = ldm_owner(address);
    if (owner == MAIN_MEMORY) return describe_memory((const char *)at);
    if (owner == NOBODY) {
        for (const struct lw_variable *v = VARIABLES; v && v < VARIABLES_END; ++v)
            if (at >= v->start && at < v->start + v->bytes) {
                snprintf(text, sizeof text, at == v->start ? "%s" : "%s + %ld bytes", v->name,
                         (long)(at - v->start));
                return text;
            }
        return "a variable";
    }
    for (Piece *p = pieces[owner]; p < pieces[owner] + MOST_PIECES; ++p)
        if (p->bytes && at >= p->start && at < p->start + p->bytes) {
            snprintf(text, sizeof text, "byte %ld of the ldm_malloc of %s", (long)(at - p->start),
                     place(p->site));
            return text;
        }
    snprintf(text, sizeof text, at < cpes[owner].stack_top ? "a local variable" : "the free LDM");
    return text;
}
