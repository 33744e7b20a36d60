/*
 * address_rule.h - the addresses that a pod which registered itself may have.
 *
 * Whoever may register a pod chooses where this router connects to. Addresses that mean something else on
 * this machine than on the pod's (loopback, link-local, where clouds have their metadata service, and what
 * the kernel takes for loopback) are not for them, nor are those that are no single host. An operator's list
 * narrows that, and allows what lies inside of such a range if it names a block inside of it.
 *
 * A name is no address: what it stands for is judged each time that it was looked up. Does no I/O.
 */
#ifndef HTTP_ADDRESS_RULE_H
#define HTTP_ADDRESS_RULE_H

#include "http/address.h"
#include "http/forwarded.h"

enum address_kind {
    ADDRESS_ORDINARY,
    ADDRESS_LOOPBACK,
    ADDRESS_LINK_LOCAL,
    ADDRESS_UNSPECIFIED, /* all of 0.0.0.0/8 */
    ADDRESS_MULTICAST,
    ADDRESS_BROADCAST,
};

/* An IPv4 address inside of an IPv6 one (::a.b.c.d, 64:ff9b::/96 of NAT64, 2002::/16) decides for it. */
enum address_kind address_kind(const struct address *address);

/*
 * May a pod that registered itself be here? `allow` is the operator's list; NULL or empty: there is none.
 * NULL: yes. Else why not, as the end of a sentence that begins with the address; static.
 */
const char *address_forbidden_by(const struct trusted *allow, const struct address *address,
                                 bool may_be_loopback);

/* The same for what a pod registers: "host:port". NULL also for a name. */
const char *address_text_forbidden_by(const struct trusted *allow, const char *text, bool may_be_loopback);

/*
 * Does the text itself say loopback: a literal one, or localhost? It was judged when it was registered, and
 * who registered it may have come from there. A name that merely turns out to lead there never was.
 */
bool address_text_is_loopback(const char *text);

#endif
