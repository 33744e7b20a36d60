/*
 * handshake.h - a connection until its handshake is done. Internal to the module.
 *
 * One step of a handshake may take a millisecond of the loop, which nobody can interrupt. So a client that
 * has sent something gets in line (tls_server.hellos, behind our answer tls_server.answered), and each turn
 * of the loop takes a few steps, for about half a millisecond: a thousand clients that begin a handshake at
 * once delay each other, and hardly those whose connections are open. While a line is full nobody is
 * accepted.
 */
#ifndef TLS_HANDSHAKE_H
#define TLS_HANDSHAKE_H

#include "tls/connection.h"

/* The client's socket is ready for the next step: gets it in line. */
void tls_handshake_is_ready(struct tls_connection *connection);

/* Its turn has come: takes one step. May close the connection. */
void tls_handshake_go_on(struct tls_connection *connection);

#endif
