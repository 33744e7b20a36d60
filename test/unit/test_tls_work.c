/* test_tls_work.c - what a client causes without sending data, counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tls/work.h"

enum {
    ALERT = 21,
    HANDSHAKE = 22,
    DATA = TLS_RECORD_DATA,
};

/* A key update of TLS 1.3: outside it looks like data. */
static void update_keys(struct tls_work *work)
{
    tls_work_record(work, DATA);
    tls_work_inner(work, HANDSHAKE);
}

static void send_data(struct tls_work *work, size_t len)
{
    tls_work_record(work, DATA);
    tls_work_inner(work, DATA);
    tls_work_received(work, len);
}

/* How many records of a kind are let through, of at most `tries`. */
static unsigned passed(struct tls_work *work, void (*send)(struct tls_work *work), unsigned tries)
{
    unsigned count = 0;

    while (count < tries) {
        send(work);
        if (work->is_cut)
            break;
        count++;
    }
    return count;
}

static void renegotiate(struct tls_work *work)
{
    tls_work_record(work, HANDSHAKE);
}

static void warn(struct tls_work *work)
{
    tls_work_record(work, ALERT);
}

static void send_empty_1_2(struct tls_work *work)
{
    tls_work_record(work, DATA);
}

static void send_empty_1_3(struct tls_work *work)
{
    tls_work_record(work, DATA);
    tls_work_inner(work, DATA);
}

static void flood__is_cut_at_the_limit(void **state UNUSED)
{
    void (*const kinds[])(struct tls_work *) = {update_keys, renegotiate, warn};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct tls_work work = {0};

        assert_int_equal(passed(&work, kinds[i], 1000), TLS_WORK_DEBT_MAX);
        assert_int_equal(work.dataless, TLS_WORK_DEBT_MAX);
    }
}

static void empty_records__are_known_by_what_follows_and_are_cut_one_later(void **state UNUSED)
{
    void (*const kinds[])(struct tls_work *) = {send_empty_1_2, send_empty_1_3};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct tls_work work = {0};

        assert_int_equal(passed(&work, kinds[i], 1000), TLS_WORK_DEBT_MAX + 1);
    }
}

static void renegotiation__is_cut_before_its_first_record_is_read(void **state UNUSED)
{
    struct tls_work work = {0};

    for (unsigned i = 0; i < 5; i++)
        tls_work_record(&work, HANDSHAKE);
    tls_work_opened(&work, false);
    assert_false(work.is_cut);
    send_data(&work, 100);
    renegotiate(&work);
    assert_true(work.is_cut);
    assert_int_equal(work.dataless, 5);
}

/* They show themselves as data. */
static void key_updates__are_no_renegotiation(void **state UNUSED)
{
    struct tls_work work = {0};

    tls_work_opened(&work, false);
    assert_int_equal(passed(&work, update_keys, 1000), TLS_WORK_DEBT_MAX);
}

static void handshake__with_something_behind_it_is_cut(void **state UNUSED)
{
    struct tls_work work = {0};

    renegotiate(&work);
    tls_work_opened(&work, true);
    assert_true(work.is_cut);
}

static void cut__is_for_good(void **state UNUSED)
{
    struct tls_work work = {0};

    (void)passed(&work, renegotiate, 1000);
    for (unsigned i = 0; i < 1000; i++)
        send_data(&work, 100);
    assert_true(work.is_cut);
    renegotiate(&work);
    assert_int_equal(work.dataless, TLS_WORK_DEBT_MAX);
}

static void honest_client__with_data_between_is_never_cut(void **state UNUSED)
{
    struct tls_work work = {0};

    for (unsigned i = 0; i < 5; i++)
        tls_work_record(&work, HANDSHAKE);
    for (unsigned i = 0; i < 10 * 1000 * 1000; i++) {
        send_data(&work, 1);
        update_keys(&work);
        tls_work_begin_turn(&work);
    }
    assert_false(work.is_cut);
    assert_int_equal(work.dataless, 5 + 10 * 1000 * 1000);
    assert_true(work.debt <= 5);
}

static void client_that_only_listens__may_change_keys_as_data_goes_out(void **state UNUSED)
{
    struct tls_work work = {0};

    for (unsigned i = 0; i < 100 * 1000; i++) {
        tls_work_sent(&work, 160);
        update_keys(&work);
    }
    assert_false(work.is_cut);
}

static void data__pays_for_one_record_and_not_for_all(void **state UNUSED)
{
    struct tls_work work = {0};

    assert_int_equal(passed(&work, renegotiate, TLS_WORK_DEBT_MAX), TLS_WORK_DEBT_MAX);
    send_data(&work, 16384);
    assert_int_equal(passed(&work, renegotiate, 1000), 1);
}

static void data__is_not_paid_in_advance(void **state UNUSED)
{
    struct tls_work work = {0};

    for (unsigned i = 0; i < 1000; i++)
        send_data(&work, 1);
    assert_int_equal(passed(&work, update_keys, 1000), TLS_WORK_DEBT_MAX);
}

static void turn__is_over_after_so_many_records_of_any_kind(void **state UNUSED)
{
    struct tls_work work = {0};

    for (unsigned i = 0; i < TLS_WORK_TURN_RECORDS_MAX; i++) {
        assert_false(tls_work_turn_is_over(&work));
        if (i % 12)
            send_data(&work, 1);
        else
            update_keys(&work);
    }
    assert_true(tls_work_turn_is_over(&work));
    tls_work_begin_turn(&work);
    assert_false(tls_work_turn_is_over(&work));
    for (unsigned i = 0; i < TLS_WORK_TURN_RECORDS_MAX; i++)
        tls_work_sent(&work, 1);
    assert_true(tls_work_turn_is_over(&work));
}

static void turn__is_over_after_fewer_records_without_data(void **state UNUSED)
{
    struct tls_work work = {0};

    for (unsigned i = 0; i < TLS_WORK_TURN_DATALESS_MAX; i++) {
        assert_false(tls_work_turn_is_over(&work));
        send_data(&work, 1);
        update_keys(&work);
    }
    assert_true(tls_work_turn_is_over(&work));
    tls_work_begin_turn(&work);
    assert_false(tls_work_turn_is_over(&work));
}

static void client__owes_until_data_has_come(void **state UNUSED)
{
    struct tls_work work = {0};

    for (unsigned i = 0; i < TLS_WORK_PATIENT_DEBT; i++) {
        assert_false(tls_work_is_owing(&work));
        update_keys(&work);
    }
    assert_true(tls_work_is_owing(&work));
    tls_work_begin_turn(&work);
    assert_true(tls_work_is_owing(&work));
    send_data(&work, 1);
    assert_false(tls_work_is_owing(&work));
}

/* A record with data for each without: never cut, and never in front of others. */
static void client__that_sends_half_without_data_owes_for_ever(void **state UNUSED)
{
    struct tls_work work = {0};

    for (unsigned i = 0; i < 1000; i++) {
        update_keys(&work);
        send_data(&work, 1);
        assert_int_equal(tls_work_is_owing(&work), i >= 9); /* ten times 8 for those without, less 1 each */
    }
    assert_false(work.is_cut);
    for (unsigned i = 0; i < TLS_WORK_WEIGHT_MAX / 2; i++) {
        assert_true(tls_work_is_owing(&work));
        send_data(&work, 1);
    }
    assert_false(tls_work_is_owing(&work));
}

static void client__that_sends_little_without_data_never_owes(void **state UNUSED)
{
    struct tls_work work = {0};

    for (unsigned i = 0; i < 1000; i++) {
        update_keys(&work);
        assert_false(tls_work_is_owing(&work));
        for (unsigned k = 0; k < TLS_WORK_WEIGHT; k++)
            send_data(&work, 1);
    }
}

static void turn__is_over_after_so_many_bytes(void **state UNUSED)
{
    struct tls_work work = {0};

    for (unsigned i = 0; i < TLS_WORK_TURN_BYTES_MAX / 16384; i++) {
        assert_false(tls_work_turn_is_over(&work));
        send_data(&work, 16384);
    }
    assert_true(tls_work_turn_is_over(&work));
    tls_work_begin_turn(&work);
    tls_work_sent(&work, SIZE_MAX / 2);
    assert_true(tls_work_turn_is_over(&work));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flood__is_cut_at_the_limit),
        cmocka_unit_test(empty_records__are_known_by_what_follows_and_are_cut_one_later),
        cmocka_unit_test(renegotiation__is_cut_before_its_first_record_is_read),
        cmocka_unit_test(key_updates__are_no_renegotiation),
        cmocka_unit_test(handshake__with_something_behind_it_is_cut),
        cmocka_unit_test(cut__is_for_good),
        cmocka_unit_test(honest_client__with_data_between_is_never_cut),
        cmocka_unit_test(client_that_only_listens__may_change_keys_as_data_goes_out),
        cmocka_unit_test(data__pays_for_one_record_and_not_for_all),
        cmocka_unit_test(data__is_not_paid_in_advance),
        cmocka_unit_test(turn__is_over_after_so_many_records_of_any_kind),
        cmocka_unit_test(turn__is_over_after_fewer_records_without_data),
        cmocka_unit_test(client__owes_until_data_has_come),
        cmocka_unit_test(client__that_sends_half_without_data_owes_for_ever),
        cmocka_unit_test(client__that_sends_little_without_data_never_owes),
        cmocka_unit_test(turn__is_over_after_so_many_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
