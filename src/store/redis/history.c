/*
 * history.c - the command history, and what the scripts of all changes of configuration get and answer.
 */
#include "core/history.h"

#include <stdlib.h>

#include "store/redis/answer.h"

void change_add(struct args *args, const struct change *change)
{
    args_add_text(args, change->by ? change->by : "");
    if (change->if_version)
        args_add_u64(args, change->if_version);
    else
        args_add_text(args, "");
    args_add_text(args, change->is_trial ? SCRIPT_YES : "");
}

int change_answer(struct operation *operation, uint64_t version, const char *old_text, const char *new_text)
{
    struct result *result = operation->result;
    int err = result_change(result, operation->arena, 0, old_text, new_text);

    result->change.version = version;
    return err;
}

/* HISTORY: history.lua */

int history_encode(struct operation *operation, struct args *args)
{
    const char *id = operation->command.history.merchant_id;

    args_begin(args, operation, operation->arena, SCRIPT_HISTORY_ARGS);
    args_add_text(args, id ? id : "");
    return 0;
}

/* `NUMBER TIME BY`, a newline, and the text. What is nothing like it was written by hand: it is left out. */
static bool read_version(char *entry, struct version_info *ret_info)
{
    char *newline = strchr(entry, '\n');
    char *at;

    if (!newline)
        return false;
    *newline = '\0';
    ret_info->number = strtoull(entry, &at, 10);
    if (*at++ != ' ' || !ret_info->number)
        return false;
    ret_info->at_ms = strtoull(at, &at, 10);
    if (*at++ != ' ')
        return false;
    ret_info->by = at;
    ret_info->text = newline + 1;
    return true;
}

int history_decode(struct operation *operation, const redisReply *reply)
{
    struct version_info kept[HISTORY_MAX];
    struct answer answer;
    const char *present;
    size_t count = 0;

    answer_init(&answer, reply, operation->arena);
    present = answer_text(&answer);
    while (answer_left(&answer) > 0 && count < HISTORY_MAX) {
        struct slice entry = answer_slice(&answer);
        char *copy = arena_copy(operation->arena, entry.data, entry.len);

        if (!copy)
            return -ENOMEM;
        if (read_version(copy, &kept[count]))
            count++;
    }
    if (answer.err)
        return operation_checked(operation, answer.err);
    return history_answer(kept, count, present, operation->arena, operation->result);
}
