/*
 * top_keys.h - what a key does in `smart-router top`. No terminal: the keys are ours.
 */
#ifndef CLI_TOP_KEYS_H
#define CLI_TOP_KEYS_H

#include "cli/top_model.h"

/* Printable characters are themselves. */
enum top_key {
    TOP_KEY_TAB = '\t',
    TOP_KEY_ENTER = '\n',
    TOP_KEY_ESCAPE = 27,
    TOP_KEY_BACKSPACE = 127,
    TOP_KEY_UP = 1000,
    TOP_KEY_DOWN,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_BACK_TAB,
};

enum top_answer {
    TOP_GO_ON,
    TOP_QUIT,
    TOP_SEND, /* the operator said yes to model->request */
};

enum top_answer top_key(struct top_model *model, int key);

/* The question that TOP_CONFIRM asks. */
void top_question(const struct top_request *request, char *text, size_t size);

#endif
