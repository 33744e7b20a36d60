/*
 * wire.h - the client's socket as OpenSSL sees it. Internal to the module.
 *
 * OpenSSL reads on as long as there is something to read and no data has come of it. So what it reads goes
 * through here, where it finds nothing more once the connection has had its share of this turn (work.h).
 * Records are read ahead here and not by OpenSSL, because it would go on with what it has.
 */
#ifndef TLS_WIRE_H
#define TLS_WIRE_H

#include "tls/connection.h"

/* NULL without memory; the caller frees it with BIO_meth_free, after all that was made with it. */
BIO_METHOD *tls_wire_method_new(void);

/* Puts the connection's socket behind connection->ssl. False without memory. */
bool tls_wire_attach(struct tls_connection *connection) MUST_CHECK;

/* Is there more to read of which no poll tells? Either it was read ahead, or OpenSSL was not let near it. */
bool tls_wire_has_more(const struct tls_connection *connection);

#endif
