/*
 * context.c - loads and checks the certificate and the key, and configures OpenSSL.
 */
#include "tls/context.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>

/* Forward secrecy and authenticated encryption; everything that has spoken TLS 1.2 for years has one of them.
 */
static const char ciphers_of_1_2[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

enum { CHAIN_MAX = 16 };

static int problem(struct tls_problem *ret_problem, enum tls_file file, int err, const char *sentence)
{
    ret_problem->file = file;
    snprintf(ret_problem->sentence, sizeof(ret_problem->sentence), "%s", sentence);
    return err;
}

/* OpenSSL's own words, for what we have none for. */
static int problem_of_openssl(struct tls_problem *ret_problem, enum tls_file file, const char *what)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(code);

    ret_problem->file = file;
    snprintf(ret_problem->sentence, sizeof(ret_problem->sentence), "%s (OpenSSL: %s)", what,
             reason ? reason : "no reason given");
    return -EINVAL;
}

static int problem_of_file(struct tls_problem *ret_problem, enum tls_file file, const char *path, int err)
{
    ret_problem->file = file;
    snprintf(ret_problem->sentence, sizeof(ret_problem->sentence), "\"%.300s\" cannot be read: %s", path,
             err == -EFBIG    ? "it is larger than 1 MiB"
             : err == -EINVAL ? "it is not a regular file"
                              : strerror(-err));
    return err;
}

static void bio_freep(BIO **bio)
{
    BIO_free(*bio);
}

static void x509_freep(X509 **certificate)
{
    X509_free(*certificate);
}

static void key_freep(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}

static void context_freep(SSL_CTX **context)
{
    SSL_CTX_free(*context);
}

static void fd_closep(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

/* The whole file in memory. A FIFO or a device must not hold the loop, so it has to be a file. */
static int read_file(const char *path, BIO **ret_bio)
{
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    CLEANUP(bio_freep) BIO *bio = NULL;
    struct stat info;
    char piece[4096];
    size_t total = 0;
    ssize_t count;

    if (fd < 0 || fstat(fd, &info) < 0)
        return -errno;
    if (S_ISDIR(info.st_mode))
        return -EISDIR;
    if (!S_ISREG(info.st_mode))
        return -EINVAL;
    bio = BIO_new(BIO_s_mem());
    if (!bio)
        return -ENOMEM;
    while ((count = read(fd, piece, sizeof(piece))) > 0) {
        total += (size_t)count;
        if (total > TLS_FILE_MAX)
            return -EFBIG;
        if (BIO_write(bio, piece, (int)count) != count)
            return -ENOMEM;
    }
    OPENSSL_cleanse(piece, sizeof(piece));
    if (count < 0)
        return -errno;
    *ret_bio = TAKE(bio);
    return 0;
}

/* Nobody is there to be asked for a password. */
static int note_password(char *buf UNUSED, int size UNUSED, int writes UNUSED, void *arg)
{
    *(bool *)arg = true;
    return -1;
}

static int use_chain(SSL_CTX *context, BIO *bio, X509 *first, struct tls_problem *ret_problem)
{
    if (SSL_CTX_use_certificate(context, first) != 1)
        return problem_of_openssl(ret_problem, TLS_CERTIFICATE, "the certificate cannot be used");
    for (unsigned i = 0;; i++) {
        CLEANUP(x509_freep) X509 *next = PEM_read_bio_X509(bio, NULL, NULL, NULL);

        if (!next && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE) {
            ERR_clear_error();
            return 0;
        }
        if (!next)
            return problem_of_openssl(ret_problem, TLS_CERTIFICATE,
                                      "a certificate after the first cannot be read");
        if (i >= CHAIN_MAX)
            return problem(ret_problem, TLS_CERTIFICATE, -EINVAL, "has more than 17 certificates");
        if (SSL_CTX_add0_chain_cert(context, next) != 1)
            return problem_of_openssl(ret_problem, TLS_CERTIFICATE,
                                      "a certificate after the first cannot be used");
        (void)TAKE(next);
    }
}

static void note_validity(const X509 *certificate, struct tls_notes *notes)
{
    struct tm tm;

    notes->is_early = X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0;
    notes->is_expired = X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0;
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) == 1)
        notes->not_after_s = (int64_t)timegm(&tm);
}

int tls_context_load_certificate(SSL_CTX *context, const char *path, struct tls_notes *notes,
                                 struct tls_problem *ret_problem)
{
    CLEANUP(bio_freep) BIO *bio = NULL;
    CLEANUP(x509_freep) X509 *certificate = NULL;
    int err = read_file(path, &bio);

    if (err < 0)
        return problem_of_file(ret_problem, TLS_CERTIFICATE, path, err);
    certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    if (!certificate)
        return problem_of_openssl(ret_problem, TLS_CERTIFICATE, "holds no certificate in PEM form");
    note_validity(certificate, notes);
    return use_chain(context, bio, certificate, ret_problem);
}

int tls_context_load_key(SSL_CTX *context, const char *path, struct tls_problem *ret_problem)
{
    CLEANUP(bio_freep) BIO *bio = NULL;
    CLEANUP(key_freep) EVP_PKEY *key = NULL;
    bool wants_password = false;
    int err = read_file(path, &bio);

    if (err < 0)
        return problem_of_file(ret_problem, TLS_KEY, path, err);
    key = PEM_read_bio_PrivateKey(bio, NULL, note_password, &wants_password);
    if (wants_password)
        return problem(ret_problem, TLS_KEY, -EINVAL,
                       "the key is encrypted, and nobody is there to give the password: decrypt it, for "
                       "example with openssl pkey -in encrypted.pem -out key.pem");
    if (!key)
        return problem_of_openssl(ret_problem, TLS_KEY, "holds no private key in PEM form");
    if (X509_check_private_key(SSL_CTX_get0_certificate(context), key) != 1)
        return problem(ret_problem, TLS_KEY, -EINVAL, "is not the key of the certificate");
    if (SSL_CTX_use_PrivateKey(context, key) != 1)
        return problem_of_openssl(ret_problem, TLS_KEY, "the key cannot be used");
    return 0;
}

int tls_context_load_authorities(SSL_CTX *context, const char *path, struct tls_problem *ret_problem)
{
    CLEANUP(bio_freep) BIO *bio = NULL;
    int err = read_file(path, &bio);

    if (err < 0)
        return problem_of_file(ret_problem, TLS_AUTHORITIES, path, err);
    for (unsigned count = 0;; count++) {
        CLEANUP(x509_freep) X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);

        if (!certificate && count > 0 && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE)
            return 0;
        if (!certificate)
            return problem_of_openssl(ret_problem, TLS_AUTHORITIES,
                                      count ? "a certificate after the first cannot be read"
                                            : "holds no certificate in PEM form");
        if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate) != 1)
            return problem_of_openssl(ret_problem, TLS_AUTHORITIES, "a certificate cannot be used");
    }
}

/* HTTP/1.1 is all that is spoken here. A client that wants something else only must be told (RFC 7301). */
static int choose_protocol(SSL *ssl UNUSED, const unsigned char **ret_name, unsigned char *ret_len,
                           const unsigned char *offered, unsigned offered_len, void *arg UNUSED)
{
    static const unsigned char wanted[] = "\x08http/1.1";
    unsigned char *name;

    if (SSL_select_next_proto(&name, ret_len, wanted, sizeof(wanted) - 1, offered, offered_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *ret_name = name;
    return SSL_TLSEXT_ERR_OK;
}

static bool configure(SSL_CTX *context)
{
    /*
     * Of renegotiation OpenSSL hears nothing, see work.h. The option is for the case that it does: without it
     * each such hello would cost a whole handshake.
     *
     * A connection that ends without a word of TLS is an end all the same: what HTTP carries says by itself
     * how long it is.
     */
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
    /* Most connections are quiet most of the time, and need no buffers meanwhile. */
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* It is not OpenSSL that reads ahead: see wire.h. */
    SSL_CTX_set_read_ahead(context, 0);
    /* Sessions are resumed by tickets, which the client keeps; nothing is kept here. */
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(context, ciphers_of_1_2) == 1;
}

int tls_context_new(const char *certificate_file, const char *key_file, SSL_CTX **ret_context,
                    struct tls_notes *ret_notes, struct tls_problem *ret_problem)
{
    CLEANUP(context_freep) SSL_CTX *context = NULL;
    struct tls_notes notes = {0};
    int err;

    ERR_clear_error();
    context = SSL_CTX_new(TLS_server_method());
    if (!context || !configure(context))
        return problem(ret_problem, TLS_CERTIFICATE, -ENOMEM, "OpenSSL has no memory for it");
    err = tls_context_load_certificate(context, certificate_file, &notes, ret_problem);
    if (err == 0)
        err = tls_context_load_key(context, key_file, ret_problem);
    ERR_clear_error();
    if (err < 0)
        return err;
    *ret_notes = notes;
    *ret_context = TAKE(context);
    return 0;
}

int tls_check_files(const char *certificate_file, const char *key_file, struct tls_notes *ret_notes,
                    struct tls_problem *ret_problem)
{
    CLEANUP(context_freep) SSL_CTX *context = NULL;

    return tls_context_new(certificate_file, key_file, &context, ret_notes, ret_problem);
}
