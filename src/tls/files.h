/*
 * files.h - the files of TLS: certificates and keys in PEM form, and what may be wrong with them.
 */
#ifndef TLS_FILES_H
#define TLS_FILES_H

#include "base/base.h"

enum {
    TLS_FILE_MAX = 1024 * 1024,
    TLS_SENTENCE_MAX = 512,
};

enum tls_file {
    TLS_CERTIFICATE,
    TLS_KEY,
    TLS_AUTHORITIES, /* the certificates that are trusted to vouch for others */
};

/* What is wrong with the files, as a sentence for the operator. */
struct tls_problem {
    enum tls_file file;
    char sentence[TLS_SENTENCE_MAX];
};

#endif
