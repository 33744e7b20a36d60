/*
 * base64.h - the standard alphabet, as the `-data` fields of a kubeconfig have it.
 */
#ifndef K8S_BASE64_H
#define K8S_BASE64_H

#include "base/base.h"

/*
 * Decodes into memory that the caller frees; a NUL stands behind the last byte. Whitespace is skipped.
 * -EINVAL: a character that does not belong, wrong padding, or nothing to decode; -ENOMEM.
 */
int base64_decode(struct slice text, char **ret_data, size_t *ret_len) MUST_CHECK;

#endif
