/* test_tls_client.c - a client of TLS between a server that is scripted here and a reader of clear text. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "tls/client.h"

enum {
    TURNS_MAX = 20000000,
    BULK = 4 * 1024 * 1024,
    UPDATES = 20000,
};

struct site {
    uv_loop_t loop;
    char directory[64];
    char ca_file[96];
    struct tls_client_context *context;
    struct tls_client *client;
    SSL_CTX *server_context;
    SSL *server;
    int server_fd;
    int outer_fd; /* the client's end of it, to look at */
    int clear_fd;
    unsigned turns;
    bool is_open;
    bool is_closed;
};

static void site_opened(void *arg)
{
    ((struct site *)arg)->is_open = true;
}

static void site_closed(void *arg)
{
    ((struct site *)arg)->is_closed = true;
}

/* One that vouches for itself, for "localhost". */
static X509 *make_certificate(EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:localhost");

    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               (const unsigned char *)"localhost", -1, -1, 0);
    X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
    X509_add_ext(certificate, names, -1);
    X509_set_pubkey(certificate, key);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    X509_EXTENSION_free(names);
    return certificate;
}

static void write_certificate(const char *path, X509 *certificate)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, certificate), 1);
    assert_int_equal(fclose(file), 0);
}

/* Over TCP: it takes megabytes, also of small pieces. Neither end blocks. */
static void connect_pair(int pair[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(pair[0], (struct sockaddr *)&address, size), 0);
    pair[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    assert_true(pair[1] >= 0);
    assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
    close(listener);
}

static void site_start(struct site *site)
{
    const struct tls_client_settings settings = {site->ca_file, "", "", ""};
    const struct tls_client_hooks hooks = {site_opened, site_closed, site};
    struct tls_problem problem;
    int pair[2];

    assert_int_equal(tls_client_context_new(&settings, &site->context, &problem), 0);
    connect_pair(pair);
    site->outer_fd = pair[0];
    site->server_fd = pair[1];
    site->server = SSL_new(site->server_context);
    SSL_set_fd(site->server, pair[1]);
    SSL_set_accept_state(site->server);
    assert_int_equal(tls_client_start(&site->loop, site->context, pair[0], "localhost", &hooks, &site->client,
                                      &site->clear_fd),
                     0);
}

static int setup(void **state)
{
    struct site *site = calloc(1, sizeof(*site));
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = make_certificate(key);

    snprintf(site->directory, sizeof(site->directory), "/tmp/sr-tls-client-XXXXXX");
    assert_non_null(mkdtemp(site->directory));
    snprintf(site->ca_file, sizeof(site->ca_file), "%s/ca.pem", site->directory);
    write_certificate(site->ca_file, certificate);
    site->server_context = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(site->server_context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(site->server_context, key), 1);
    SSL_CTX_set_mode(site->server_context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    X509_free(certificate);
    EVP_PKEY_free(key);
    assert_int_equal(uv_loop_init(&site->loop), 0);
    site_start(site);
    *state = site;
    return 0;
}

static int teardown(void **state)
{
    struct site *site = *state;

    if (site->client)
        tls_client_stop(site->client);
    uv_run(&site->loop, UV_RUN_DEFAULT);
    assert_true(site->is_closed);
    assert_int_equal(uv_loop_close(&site->loop), 0);
    tls_client_context_free(site->context);
    SSL_free(site->server);
    SSL_CTX_free(site->server_context);
    close(site->server_fd);
    if (site->clear_fd >= 0)
        close(site->clear_fd);
    unlink(site->ca_file);
    rmdir(site->directory);
    free(site);
    return 0;
}

static void turn(struct site *site)
{
    assert_true(site->turns++ < TURNS_MAX);
    uv_run(&site->loop, UV_RUN_NOWAIT);
}

static void shake_hands(struct site *site)
{
    int rc = 0;

    while (rc != 1 || !site->is_open) {
        turn(site);
        rc = SSL_do_handshake(site->server);
    }
}

static unsigned char byte_at(size_t at)
{
    return (unsigned char)(at * 31 + at / 251);
}

static void bytes_from_the_server__arrive_whole_with_a_reader_that_is_slow(void **state)
{
    struct site *site = *state;
    unsigned char piece[8192];
    size_t sent = 0;
    size_t received = 0;
    bool is_full = false;

    shake_hands(site);
    while (received < BULK) {
        for (int rc = 1; rc > 0 && sent < BULK;) {
            size_t len = min_u64(sizeof(piece), BULK - sent);

            for (size_t i = 0; i < len; i++)
                piece[i] = byte_at(sent + i);
            rc = SSL_write(site->server, piece, (int)len);
            if (rc > 0)
                sent += (size_t)rc;
            is_full = is_full || rc <= 0;
        }
        turn(site);
        /* Not before the server has felt that nobody reads. */
        for (ssize_t count = 1; is_full && count > 0;) {
            count = recv(site->clear_fd, piece, 1000, MSG_DONTWAIT);
            for (ssize_t i = 0; i < count; i++)
                assert_int_equal(piece[i], byte_at(received + (size_t)i));
            if (count > 0)
                received += (size_t)count;
        }
        assert_true(sent - received < BULK); /* the rest is in no memory of ours */
    }
    assert_int_equal(received, BULK);
    assert_true(is_full);
}

static void bytes_to_the_server__arrive_whole_with_a_server_that_is_slow(void **state)
{
    struct site *site = *state;
    unsigned char piece[8192];
    size_t sent = 0;
    size_t received = 0;
    bool is_full = false;

    shake_hands(site);
    while (received < BULK) {
        for (ssize_t count = 1; count > 0 && sent < BULK;) {
            size_t len = min_u64(sizeof(piece), BULK - sent);

            for (size_t i = 0; i < len; i++)
                piece[i] = byte_at(sent + i);
            count = send(site->clear_fd, piece, len, MSG_DONTWAIT);
            if (count > 0)
                sent += (size_t)count;
            is_full = is_full || count < 0;
        }
        tls_client_push(site->client);
        turn(site);
        for (int rc = 1; is_full && rc > 0;) {
            rc = SSL_read(site->server, piece, 1000);
            for (int i = 0; i < rc; i++)
                assert_int_equal(piece[i], byte_at(received + (size_t)i));
            if (rc > 0)
                received += (size_t)rc;
        }
    }
    assert_true(is_full);
}

/* False: the socket is full, and the next call goes on with the same one. */
static bool send_key_update(SSL *server, bool *is_under_way)
{
    if (!*is_under_way)
        assert_int_equal(SSL_key_update(server, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    *is_under_way = SSL_do_handshake(server) != 1;
    return !*is_under_way;
}

/* OpenSSL would work through all of them in one call, as long as no data comes. */
static void key_updates_without_end__do_not_keep_the_loop(void **state)
{
    struct site *site = *state;
    bool is_under_way = false;
    unsigned updates = 0;
    int unread = 0;
    char byte;

    shake_hands(site);
    assert_int_equal(SSL_version(site->server), TLS1_3_VERSION);
    while (updates < UPDATES && send_key_update(site->server, &is_under_way))
        updates++;
    turn(site);
    /* 27 bytes each: one turn is not enough for all of them. */
    assert_int_equal(ioctl(site->outer_fd, FIONREAD, &unread), 0);
    assert_true(unread > 0);
    while (is_under_way) {
        (void)send_key_update(site->server, &is_under_way);
        turn(site);
    }
    while (SSL_write(site->server, "x", 1) <= 0)
        turn(site);
    while (recv(site->clear_fd, &byte, 1, MSG_DONTWAIT) != 1)
        turn(site);
    assert_int_equal(byte, 'x');
}

static void an_end__of_the_server_is_an_end_for_the_reader(void **state)
{
    struct site *site = *state;
    const char *detail;
    char text[8];
    ssize_t count;

    shake_hands(site);
    assert_int_equal(SSL_write(site->server, "last", 4), 4);
    assert_int_equal(SSL_shutdown(site->server), 0);
    while ((count = recv(site->clear_fd, text, sizeof(text), MSG_DONTWAIT)) < 0)
        turn(site);
    assert_int_equal(count, 4);
    assert_memory_equal(text, "last", 4);
    while ((count = recv(site->clear_fd, text, sizeof(text), MSG_DONTWAIT)) < 0)
        turn(site);
    assert_int_equal(count, 0);
    assert_int_equal(tls_client_fault(site->client, &detail), TLS_FAULT_NONE);
}

static void a_stop__sends_what_was_written_before(void **state)
{
    struct site *site = *state;
    char text[8];
    int count;

    shake_hands(site);
    assert_int_equal(send(site->clear_fd, "last", 4, 0), 4);
    close(site->clear_fd);
    site->clear_fd = -1;
    tls_client_stop(site->client);
    site->client = NULL;
    while ((count = SSL_read(site->server, text, sizeof(text))) < 0)
        turn(site);
    assert_int_equal(count, 4);
    assert_memory_equal(text, "last", 4);
    while ((count = SSL_read(site->server, text, sizeof(text))) < 0)
        turn(site);
    assert_int_equal(count, 0);
}

static void a_stop__in_the_handshake_is_possible(void **state)
{
    struct site *site = *state;

    turn(site);
    assert_false(site->is_open);
    tls_client_stop(site->client);
    site->client = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_from_the_server__arrive_whole_with_a_reader_that_is_slow, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(bytes_to_the_server__arrive_whole_with_a_server_that_is_slow, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(key_updates_without_end__do_not_keep_the_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end__of_the_server_is_an_end_for_the_reader, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stop__sends_what_was_written_before, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stop__in_the_handshake_is_possible, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
