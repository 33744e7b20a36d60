/*
 * table.h - rows and columns that fit the width of a terminal.
 *
 * Where the width is not enough, long cells are cut in their middle, and then whole columns are left out, in
 * the order that the columns say. All texts are made safe for a terminal.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "base/arena.h"
#include "cli/terminal.h"

enum { TABLE_COLUMNS_MAX = 12 };

struct table_column {
    const char *head;
    size_t min;       /* its cells may be cut to so many characters; 0: they may not */
    unsigned omitted; /* which column is left out first: 1, then 2 and so on; 0: never */
    bool is_right;    /* numbers */
};

struct table_cell;

struct table {
    const struct table_column *columns;
    size_t column_count;
    struct arena arena;
    struct table_cell *cells; /* row by row */
    size_t count;
    size_t room;
    bool failed;
};

void table_init(struct table *table, const struct table_column *columns, size_t column_count);
void table_release(struct table *table);

/* The next cell. Copies the text; NULL is "-". */
void table_add(struct table *table, const char *text);
void table_add_coloured(struct table *table, enum colour colour, const char *text);
void table_add_u64(struct table *table, uint64_t number);
/* An age, see text_append_age_of. */
void table_add_age(struct table *table, const char *time);

size_t table_rows(const struct table *table);

/* Appends the head and all rows. A table without rows has only its head. Fails the buffer without memory. */
void table_write(const struct table *table, const struct terminal *terminal, struct strbuf *buf);

#endif
