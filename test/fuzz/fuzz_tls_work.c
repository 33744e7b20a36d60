/*
 * fuzz_tls_work.c - what a TLS client causes without sending data is bounded, whatever comes in which order.
 *
 * An input is a sequence of events, one byte each, as OpenSSL may report them: headers of records of any
 * type, the type that was inside, the end of the handshake, data in and out, turns of the loop; also such as
 * no OpenSSL would report.
 * The target keeps its own books, which count what got through and do not know how the module counts. Then
 * the same input is taken for an honest client: as many records with data as without, in any order that never
 * owes more than a burst. That one is never cut.
 *
 * The same bytes are a client's handshake as well, for hello.h: where it stops does not depend on the cuts,
 * and a hello that got through is not too long.
 */
#include "fuzz.h"
#include "tls/hello.h"
#include "tls/work.h"

enum {
    HANDSHAKE_RECORDS = 5, /* that an honest client begins with */
    BURST = TLS_WORK_DEBT_MAX - HANDSHAKE_RECORDS,
};

/* What got through: sums, and nothing is ever taken away. */
struct books {
    uint64_t dataless;     /* records known to have none */
    uint64_t with_data;    /* in both directions */
    uint64_t dataless_row; /* since the last data */
    uint64_t turn_records;
    uint64_t turn_bytes;
    uint64_t turn_began_at; /* records without data so far */
    bool is_undecided;
    bool is_refused; /* it asked for another handshake */
};

static void book_dataless(struct books *books, const struct tls_work *work)
{
    if (work->is_cut)
        return;
    books->dataless++;
    books->dataless_row++;
}

static void book_data(struct books *books, size_t len)
{
    books->with_data++;
    books->dataless_row = 0;
    books->turn_bytes += len;
}

static void do_record(struct tls_work *work, struct books *books, unsigned type)
{
    bool was_undecided = books->is_undecided;
    bool was_cut = work->is_cut;

    tls_work_record(work, type);
    books->turn_records++;
    books->is_undecided = type == TLS_RECORD_DATA;
    if (type == TLS_RECORD_HANDSHAKE && work->is_open) {
        assert(work->is_cut);
        books->is_refused = true;
    }
    /* Cut here: the empty one before it had got through, this one did not. */
    if (was_undecided && !was_cut) {
        books->dataless += work->is_cut;
        books->dataless_row += work->is_cut;
        book_dataless(books, work);
    }
    if (type != TLS_RECORD_DATA)
        book_dataless(books, work);
}

static void do_inner(struct tls_work *work, struct books *books, unsigned type)
{
    tls_work_inner(work, type);
    if (type == TLS_RECORD_DATA || !books->is_undecided)
        return;
    books->is_undecided = false;
    book_dataless(books, work);
}

static void do_turn(struct tls_work *work, struct books *books)
{
    tls_work_begin_turn(work);
    books->turn_records = 0;
    books->turn_bytes = 0;
    books->turn_began_at = work->dataless;
}

static void do_opened(struct tls_work *work, struct books *books, bool has_more)
{
    if (work->is_open)
        return;
    tls_work_opened(work, has_more);
    assert(work->is_open && (work->is_cut || !has_more));
    books->is_refused = books->is_refused || has_more;
}

static void do_event(struct tls_work *work, struct books *books, uint8_t event)
{
    unsigned type = event & 31U;

    switch (event >> 5) {
    case 0:
    case 1:
        do_record(work, books, type);
        break;
    case 2:
        do_record(work, books, TLS_RECORD_DATA);
        do_inner(work, books, type);
        break;
    case 3:
        do_inner(work, books, type);
        break;
    case 4:
        do_record(work, books, TLS_RECORD_DATA);
        tls_work_received(work, (size_t)1 << (type % 15));
        books->is_undecided = false;
        book_data(books, (size_t)1 << (type % 15));
        break;
    case 5:
        tls_work_received(work, type == 31 ? SIZE_MAX / 2 : 1 + type);
        books->is_undecided = false;
        book_data(books, type == 31 ? UINT32_MAX : 1 + type);
        break;
    case 6:
        tls_work_sent(work, (size_t)1 << type);
        books->turn_records++;
        book_data(books, (size_t)1 << type);
        break;
    default:
        if (type >= 30)
            do_opened(work, books, type == 31);
        else
            do_turn(work, books);
        break;
    }
}

static void check(const struct tls_work *work, const struct tls_work *before, const struct books *books)
{
    assert(work->debt <= TLS_WORK_DEBT_MAX && work->debt <= work->dataless);
    assert(work->dataless >= before->dataless);
    assert(work->is_cut || !before->is_cut);
    assert(work->is_open || !before->is_open);
    /* An empty record is known to be one when the next one comes, so one more may get through. */
    assert(books->dataless_row <= TLS_WORK_DEBT_MAX + 1);
    assert(books->dataless <= TLS_WORK_DEBT_MAX + 1 + books->with_data);
    assert(work->dataless <= books->dataless && books->dataless <= work->dataless + 1);
    /* Who is cut did owe as much, or wanted another handshake. */
    assert(!work->is_cut || work->dataless >= TLS_WORK_DEBT_MAX || books->is_refused);
    assert(work->is_cut || !books->is_refused);
    assert(work->weight <= TLS_WORK_WEIGHT_MAX && work->debt <= work->weight);
    assert(work->weight <= TLS_WORK_WEIGHT * work->dataless);
    assert(tls_work_is_owing(work) ==
           (work->debt >= TLS_WORK_PATIENT_DEBT || work->weight >= TLS_WORK_WEIGHT_MAX / 2));
    assert(tls_work_turn_is_over(work) ==
           (work->dataless - books->turn_began_at >= TLS_WORK_TURN_DATALESS_MAX ||
            books->turn_records >= TLS_WORK_TURN_RECORDS_MAX ||
            books->turn_bytes >= TLS_WORK_TURN_BYTES_MAX));
}

/* One record without data, of a kind that the event decides. */
static void honest_dataless(struct tls_work *work, uint8_t event)
{
    if (event % 3 == 0) {
        tls_work_record(work, 20 + event % 3);
        return;
    }
    tls_work_record(work, TLS_RECORD_DATA);
    if (event % 3 == 1)
        tls_work_inner(work, TLS_RECORD_HANDSHAKE);
}

static void honest_data(struct tls_work *work, uint8_t event)
{
    if (event & 64) {
        tls_work_sent(work, 1 + event);
        return;
    }
    tls_work_record(work, TLS_RECORD_DATA);
    if (event & 32)
        tls_work_inner(work, TLS_RECORD_DATA);
    tls_work_received(work, 1 + event);
}

static void check_honest(struct input input)
{
    struct tls_work work = {0};
    unsigned owed = 0;

    for (unsigned i = 0; i < HANDSHAKE_RECORDS; i++)
        tls_work_record(&work, TLS_RECORD_HANDSHAKE);
    tls_work_opened(&work, false);
    while (input.size > 0) {
        uint8_t event = input_byte(&input);

        if ((event & 128) && owed < BURST - 1) {
            honest_dataless(&work, event);
            owed++;
        } else {
            honest_data(&work, event);
            owed -= owed > 0;
        }
        assert(!work.is_cut);
    }
}

/* How many bytes are let through one by one. */
static size_t check_hello(struct tls_hello *hello, const char *data, size_t size)
{
    size_t at = 0;

    while (at < size && tls_hello_feed(hello, data + at, 1)) {
        assert(hello->message_type != 1 || hello->message_left <= TLS_HELLO_MAX);
        assert(hello->record_left <= UINT16_MAX);
        at++;
    }
    return at;
}

static void check_hellos(const uint8_t *data, size_t size)
{
    struct tls_hello one_by_one = {0}, in_two = {0};
    size_t passed = check_hello(&one_by_one, (const char *)data, size);
    size_t half = size ? data[0] % (passed + 1) : 0;

    assert(tls_hello_feed(&in_two, (const char *)data, half));
    assert(tls_hello_feed(&in_two, (const char *)data + half, passed - half));
    if (passed < size)
        assert(!tls_hello_feed(&in_two, (const char *)data + passed, size - passed));
    else
        assert(memcmp(&one_by_one, &in_two, sizeof(in_two)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct tls_work work = {0};
    struct books books = {0};

    while (input.size > 0) {
        struct tls_work before = work;

        do_event(&work, &books, input_byte(&input));
        check(&work, &before, &books);
    }
    check_honest((struct input){data, size});
    check_hellos(data, size);
    return 0;
}
