/*
 * annotations.c - reads our annotations of one pod, and writes the patch that sets or removes them.
 */
#include "k8s/annotations.h"

#include <stdio.h>

#include "base/json.h"

static const struct mark_kind {
    const char *key;
    const char *value;
    const char *word; /* how our own annotation calls it */
} mark_kinds[] = {
    {K8S_ANNOTATIONS_COST, K8S_ANNOTATIONS_COST_VALUE, "pod-deletion-cost"},
    {K8S_ANNOTATIONS_EVICT, K8S_ANNOTATIONS_EVICT_VALUE, "safe-to-evict"},
    {K8S_ANNOTATIONS_DISRUPT, K8S_ANNOTATIONS_DISRUPT_VALUE, "do-not-disrupt"},
};

enum {
    MARK_ALL = (1 << ARRAY_LEN(mark_kinds)) - 1,
    MARK_OWNED_MAX = 64, /* all words and their commas */
};

static uint8_t mark_bit(size_t kind)
{
    return (uint8_t)(1u << kind);
}

/* Is `word` one of the words of a comma-separated list? */
static bool mark_is_listed(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (;;) {
        size_t item = strcspn(list, ",");

        if (item == len && memcmp(list, word, len) == 0)
            return true;
        if (!list[item])
            return false;
        list += item + 1;
    }
}

void k8s_annotations_read(const cJSON *annotations, struct k8s_annotations *ret_mark)
{
    const char *owned = json_get_string(annotations, K8S_ANNOTATIONS_OWNED);
    struct k8s_annotations mark = {.is_signed = owned != NULL};

    for (size_t i = 0; i < ARRAY_LEN(mark_kinds); i++) {
        const char *value = json_get_string(annotations, mark_kinds[i].key);

        if (!value)
            continue;
        if (owned && strcmp(value, mark_kinds[i].value) == 0 && mark_is_listed(owned, mark_kinds[i].word))
            mark.ours |= mark_bit(i);
        else
            mark.others |= mark_bit(i);
    }
    *ret_mark = mark;
}

bool k8s_annotations_fits(struct k8s_annotations mark, bool is_busy)
{
    return is_busy ? (mark.ours | mark.others) == MARK_ALL : !mark.is_signed;
}

struct k8s_annotations k8s_annotations_patched(struct k8s_annotations mark, bool is_busy)
{
    mark.ours = is_busy ? MARK_ALL & (uint8_t)~mark.others : 0;
    mark.is_signed = is_busy;
    return mark;
}

void k8s_annotations_write_patch(struct strbuf *buf, struct k8s_annotations mark, const char *uid,
                                 bool is_busy)
{
    uint8_t changed = is_busy ? k8s_annotations_patched(mark, true).ours : mark.ours;
    char owned[MARK_OWNED_MAX] = "";
    size_t len = 0;
    struct json_writer json;

    json_begin(&json, buf);
    json_object_begin(&json);
    json_key(&json, "metadata");
    json_object_begin(&json);
    json_put_string(&json, "uid", uid);
    json_key(&json, "annotations");
    json_object_begin(&json);
    for (size_t i = 0; i < ARRAY_LEN(mark_kinds); i++) {
        if (changed & mark_bit(i)) {
            json_put_string(&json, mark_kinds[i].key, is_busy ? mark_kinds[i].value : NULL);
            len += (size_t)snprintf(owned + len, sizeof(owned) - len, "%s%s", len ? "," : "",
                                    mark_kinds[i].word);
            assert(len < sizeof(owned));
        }
    }
    json_put_string(&json, K8S_ANNOTATIONS_OWNED, is_busy ? owned : NULL);
    json_object_end(&json);
    json_object_end(&json);
    json_object_end(&json);
}
