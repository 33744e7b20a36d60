/*
 * history.c - keeps the last versions of each configuration, and lists them.
 */
#include "core/history.h"

#include <stdlib.h>

void histories_init(struct histories *histories)
{
    map_init(&histories->by_merchant);
    list_init(&histories->removed);
    histories->removed_count = 0;
}

struct history *history_find(const struct histories *histories, const char *merchant_id)
{
    struct map_node *node = map_get(&histories->by_merchant, merchant_id, strlen(merchant_id));

    return node ? CONTAINER_OF(node, struct history, node) : NULL;
}

const struct version *history_newest(const struct history *history)
{
    return history && history->count ? LIST_ENTRY(history->versions.prev, struct version, in_history) : NULL;
}

static void version_free(struct history *history, struct version *version)
{
    list_remove(&version->in_history);
    assert(history->count > 0);
    history->count--;
    free(version);
}

/* Is its merchant removed, as far as the history knows? */
static void history_mark_removed(struct histories *histories, struct history *history, bool is_removed)
{
    if (!list_is_empty(&history->in_removed)) {
        list_remove(&history->in_removed);
        histories->removed_count--;
    }
    if (is_removed) {
        list_append(&histories->removed, &history->in_removed);
        histories->removed_count++;
    }
}

static void history_free(struct histories *histories, struct history *history)
{
    history_mark_removed(histories, history, false);
    while (history->count)
        version_free(history, LIST_ENTRY(history->versions.next, struct version, in_history));
    map_remove(&histories->by_merchant, &history->node);
    free(history);
}

void histories_release(struct histories *histories)
{
    for (size_t i = 0; i < histories->by_merchant.bucket_count; i++) {
        while (histories->by_merchant.buckets[i])
            history_free(histories, CONTAINER_OF(histories->by_merchant.buckets[i], struct history, node));
    }
    map_release(&histories->by_merchant);
}

struct version *version_new(uint64_t number, uint64_t at_ms, const char *by, const char *text)
{
    size_t text_size = strlen(text) + 1;
    size_t by_size = strlen(by) + 1;
    struct version *version = malloc(sizeof(*version) + text_size + by_size);

    if (!version)
        return NULL;
    *version = (struct version){.number = number, .at_ms = at_ms, .by = version->text + text_size};
    list_init(&version->in_history);
    memcpy(version->text, text, text_size);
    memcpy(version->text + text_size, by, by_size);
    return version;
}

int history_get(struct histories *histories, const char *merchant_id, struct history **ret_history)
{
    struct history *history = history_find(histories, merchant_id);
    size_t len = strlen(merchant_id);

    if (!history) {
        if (map_reserve(&histories->by_merchant) < 0)
            return -ENOMEM;
        history = calloc(1, sizeof(*history) + len + 1);
        if (!history)
            return -ENOMEM;
        list_init(&history->in_removed);
        list_init(&history->versions);
        memcpy(history->merchant_id, merchant_id, len + 1);
        map_put(&histories->by_merchant, &history->node, history->merchant_id, len);
    }
    *ret_history = history;
    return 0;
}

void history_add(struct histories *histories, struct history *history, struct version *version)
{
    assert(version->number > (history->count ? history_newest(history)->number : 0));
    list_append(&history->versions, &version->in_history);
    history->count++;
    if (history->count > HISTORY_MAX)
        version_free(history, LIST_ENTRY(history->versions.next, struct version, in_history));
    history_mark_removed(histories, history, !version->text[0]);
    if (histories->removed_count > HISTORY_REMOVED_MAX)
        history_free(histories, LIST_ENTRY(histories->removed.next, struct history, in_removed));
}

void history_drop_empty(struct histories *histories, struct history *history)
{
    if (history->count == 0)
        history_free(histories, history);
}

uint64_t history_present(uint64_t newest, const char *newest_text, const char *text)
{
    return strcmp(newest_text, text) == 0 ? newest : newest + 1;
}

int history_answer(const struct version_info *kept, size_t count, const char *present_text,
                   struct arena *arena, struct result *result)
{
    uint64_t newest = count ? kept[count - 1].number : 0;
    uint64_t present = history_present(newest, count ? kept[count - 1].text : "", present_text);
    struct version_info *versions = arena_alloc(arena, (HISTORY_MAX + 1) * sizeof(*versions));
    size_t bytes = strlen(present_text);

    if (!versions)
        return -ENOMEM;
    result->history.versions = versions;
    if (present != newest)
        versions[result->history.count++] =
            (struct version_info){.number = present, .by = "", .text = present_text};
    while (count > 0 && result->history.count < HISTORY_MAX && bytes <= HISTORY_TEXTS_MAX) {
        versions[result->history.count++] = kept[--count];
        bytes += strlen(kept[count].text);
    }
    if (result->history.count == 0)
        result->outcome = OUTCOME_NOT_FOUND;
    return 0;
}
