/*
 * lines.c - the waiting lines of connections, and the order in which a turn of the loop serves
 * them.
 */
#include "tls/lines.h"

#include "base/clock.h"

void tls_lines_init(struct tls_lines *lines, size_t line_max, tls_lines_fn go_on, tls_lines_fn step)
{
    assert(line_max > 0);

    *lines = (struct tls_lines){.go_on = go_on, .step = step, .line_max = line_max};
    list_init(&lines->hellos);
    list_init(&lines->answered);
    list_init(&lines->owing);
    list_init(&lines->again);
}

void tls_lines_add(struct list *line, struct list *link)
{
    assert(list_is_empty(link));
    list_append(line, link);
}

static bool lines_have_handshake(const struct tls_lines *lines)
{
    return !list_is_empty(&lines->hellos) || !list_is_empty(&lines->answered);
}

bool tls_lines_are_empty(const struct tls_lines *lines)
{
    return list_is_empty(&lines->again) && list_is_empty(&lines->owing) && !lines_have_handshake(lines);
}

/*
 * One step, of the two lines in turns if there is somebody in both. A client gets into the second one only
 * behind the first, so half of the steps is enough for it: however many hellos wait, who has come further
 * hardly does. It is not more than half either, so nobody can keep the hellos waiting for ever.
 */
static void lines_step(struct tls_lines *lines)
{
    bool is_answered =
        !list_is_empty(&lines->answered) && (list_is_empty(&lines->hellos) || !lines->answered_had_step);

    lines->answered_had_step = is_answered;
    lines->step(is_answered ? lines->answered.next : lines->hellos.next);
}

/*
 * Handshakes get a budget: so many that the processor is used, so few that those whose connections are open
 * hardly notice.
 */
static void lines_do_handshakes(struct tls_lines *lines)
{
    uint64_t begun_ns = clock_elapsed_ns();

    for (unsigned i = 0; i < LINES_STEPS_MAX && lines_have_handshake(lines); i++) {
        if (i > 0 && clock_elapsed_ns() - begun_ns >= LINES_STEPS_NS)
            break;
        lines_step(lines);
    }
}

/* What costs most, handshakes and connections that owe, in turns if there are both. */
static void lines_do_costly(struct tls_lines *lines)
{
    bool is_owing = !list_is_empty(&lines->owing) && (!lines_have_handshake(lines) || !lines->owing_had_turn);

    lines->owing_had_turn = is_owing;
    if (is_owing)
        lines->go_on(lines->owing.next);
    else
        lines_do_handshakes(lines);
}

/* One connection after the other gets its share, as long as there is time; the rest stays in front. */
static void lines_do_again(struct tls_lines *lines)
{
    const struct list *last = lines->again.prev; /* connections after it wait for the next turn */
    uint64_t begun_ns = clock_elapsed_ns();
    bool is_last = list_is_empty(&lines->again);

    while (!is_last && !list_is_empty(&lines->again)) {
        struct list *link = lines->again.next;

        is_last = link == last;
        lines->go_on(link);
        if (clock_elapsed_ns() - begun_ns >= LINES_SHARE_NS)
            break;
    }
}

void tls_lines_turn(struct tls_lines *lines)
{
    lines_do_costly(lines);
    lines_do_again(lines);
}

/* Looks at no more of it than it must. */
static bool line_is_full(const struct list *line, size_t max)
{
    size_t count = 0;

    for (const struct list *link = line->next; link != line && count < max; link = link->next)
        count++;
    return count >= max;
}

bool tls_lines_are_behind(const struct tls_lines *lines)
{
    return line_is_full(&lines->hellos, lines->line_max) || line_is_full(&lines->answered, lines->line_max);
}

bool tls_lines_have_time(struct tls_lines *lines, uint64_t now_ms)
{
    uint64_t now_ns = clock_elapsed_ns();

    if (lines->polled_ms != now_ms) {
        lines->polled_ms = now_ms;
        lines->polled_ns = now_ns;
    }
    return now_ns - lines->polled_ns < LINES_SHARE_NS;
}
