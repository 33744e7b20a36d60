/*
 * names.c - validates names: calls, merchants, tiers, pools, pods, providers, addresses,
 * incarnations; and writes the names and labels of pools.
 */
#include "core/names.h"

enum {
    CLASS_SID = 1,  /* call_sid, merchant_id */
    CLASS_TIER = 2, /* tier, provider */
};

#define BOTH (CLASS_SID | CLASS_TIER)

static const unsigned char char_class[256] = {
    ['a' ... 'z'] = BOTH, ['A' ... 'Z'] = BOTH, ['0' ... '9'] = BOTH, ['.'] = BOTH,      ['_'] = BOTH,
    ['-'] = BOTH,         [':'] = CLASS_SID,    ['@'] = CLASS_SID,    ['+'] = CLASS_SID, ['='] = CLASS_SID,
};

static bool all_of_class(const char *text, size_t len, size_t max, unsigned char class)
{
    if (len < 1 || len > max)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!(char_class[(unsigned char)text[i]] & class))
            return false;
    }
    return true;
}

bool name_is_call_sid(const char *text, size_t len)
{
    return all_of_class(text, len, CALL_SID_MAX, CLASS_SID);
}

bool name_is_merchant_id(const char *text, size_t len)
{
    return all_of_class(text, len, MERCHANT_ID_MAX, CLASS_SID);
}

bool name_is_tier(const char *text, size_t len)
{
    return all_of_class(text, len, TIER_NAME_MAX, CLASS_TIER);
}

bool name_is_merchant_pool(const char *text, size_t len)
{
    size_t prefix = strlen(MERCHANT_POOL_PREFIX);

    return len >= prefix && memcmp(text, MERCHANT_POOL_PREFIX, prefix) == 0;
}

bool name_is_pool(const char *text, size_t len)
{
    size_t prefix = strlen(MERCHANT_POOL_PREFIX);

    if (name_is_merchant_pool(text, len))
        return name_is_merchant_id(text + prefix, len - prefix);
    return name_is_tier(text, len);
}

bool name_is_pool_or_id(const char *text, size_t len)
{
    /* Every name of a tier is a merchant id, too. */
    return name_is_merchant_pool(text, len) ? name_is_pool(text, len) : name_is_merchant_id(text, len);
}

static void write_label(const char *prefix, struct slice name, char ret_label[POOL_LABEL_MAX + 1])
{
    size_t prefix_len = strlen(prefix);
    size_t len = (size_t)min_u64(name.len, POOL_LABEL_MAX - prefix_len);

    memcpy(ret_label, prefix, prefix_len);
    memcpy(ret_label + prefix_len, name.data, len);
    ret_label[prefix_len + len] = '\0';
}

void merchant_pool_name(struct slice merchant_id, char ret_name[POOL_LABEL_MAX + 1])
{
    write_label(MERCHANT_POOL_PREFIX, merchant_id, ret_name);
}

void pool_label(struct slice name, char ret_label[POOL_LABEL_MAX + 1])
{
    write_label(name_is_merchant_pool(name.data, name.len) ? "" : POOL_LABEL_PREFIX, name, ret_label);
}

const char *name_of_pool_label(const char *label)
{
    size_t prefix = strlen(POOL_LABEL_PREFIX);

    return strncmp(label, POOL_LABEL_PREFIX, prefix) == 0 ? label + prefix : label;
}

bool name_is_provider(const char *text, size_t len)
{
    return all_of_class(text, len, PROVIDER_MAX, CLASS_TIER);
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

bool name_is_pod(const char *text, size_t len)
{
    if (len < 1 || len > POD_NAME_MAX || text[0] == '-' || text[len - 1] == '-')
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
            return false;
    }
    return !is_word(text, len, "metadata") && !is_word(text, len, "calls");
}

bool name_is_pod_pattern(const char *text, size_t len)
{
    char name[POD_NAME_MAX + 1];

    if (len < 1 || len > POD_NAME_MAX || text[len - 1] != '*')
        return name_is_pod(text, len);
    /* Whatever may begin a name can be made one. */
    memcpy(name, text, len);
    name[len - 1] = 'x';
    return name_is_pod(name, len);
}

bool name_fits_pod(const char *pattern, const char *pod)
{
    size_t len = strlen(pattern);

    if (len > 0 && pattern[len - 1] == '*')
        return strncmp(pattern, pod, len - 1) == 0;
    return strcmp(pattern, pod) == 0;
}

/* Nothing that needs escaping in JSON, either. */
static bool all_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\')
            return false;
    }
    return true;
}

/* The port at the end, if there is one: 1 to 65535. */
static bool port_is_valid(const char *text, size_t len)
{
    unsigned port = 0;

    if (len < 1 || len > 5)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    return port >= 1 && port <= 65535;
}

bool name_is_address(const char *text, size_t len)
{
    const char *end = text + len;
    const char *colon;

    if (len == 0)
        return true;
    if (len > ADDRESS_MAX || !all_plain(text, len) || memchr(text, '/', len))
        return false;
    if (text[0] == '[') {
        const char *close = memchr(text, ']', len);

        if (!close || close == text + 1)
            return false;
        return close + 1 == end || (close[1] == ':' && port_is_valid(close + 2, (size_t)(end - close - 2)));
    }
    colon = memchr(text, ':', len);
    if (!colon)
        return true;
    return colon != text && port_is_valid(colon + 1, (size_t)(end - colon - 1));
}

bool name_is_incarnation(const char *text, size_t len)
{
    return len >= 1 && len <= INCARNATION_MAX && all_plain(text, len);
}
