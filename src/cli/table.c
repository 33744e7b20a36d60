/*
 * table.c - gathers cells, chooses the widths of the columns, and writes the rows.
 */
#include "cli/table.h"

#include <stdlib.h>

#include "cli/text.h"

enum {
    ARENA_MAX = 512 * 1024 * 1024, /* a million calls */
    FIRST_ROOM = 256,
    CELL_MAX = 64 * 1024,
    GAP = 2,
};

struct table_cell {
    struct slice text; /* safe */
    size_t columns;
    enum colour colour;
};

/* How a table is written: which columns, and how wide. 0: the column is left out. */
struct layout {
    size_t widths[TABLE_COLUMNS_MAX];
    bool is_out[TABLE_COLUMNS_MAX];
};

void table_init(struct table *table, const struct table_column *columns, size_t column_count)
{
    assert(column_count > 0 && column_count <= TABLE_COLUMNS_MAX);
    *table = (struct table){.columns = columns, .column_count = column_count};
    arena_init(&table->arena, ARENA_MAX);
}

void table_release(struct table *table)
{
    free(table->cells);
    arena_release(&table->arena);
    *table = (struct table){.columns = table->columns, .column_count = table->column_count};
}

static struct table_cell *new_cell(struct table *table)
{
    if (table->count == table->room) {
        size_t room = table->room ? table->room * 2 : FIRST_ROOM;
        struct table_cell *more = reallocarray(table->cells, room, sizeof(*more));

        if (!more)
            return NULL;
        table->cells = more;
        table->room = room;
    }
    return &table->cells[table->count];
}

void table_add_coloured(struct table *table, enum colour colour, const char *text)
{
    struct table_cell *cell = table->failed ? NULL : new_cell(table);
    struct strbuf buf;

    strbuf_init(&buf, &table->arena, CELL_MAX);
    text_append_safe(&buf, slice_of(text ? text : "-"));
    if (!cell || strbuf_failed(&buf)) {
        table->failed = true;
        return;
    }
    *cell = (struct table_cell){.text = strbuf_slice(&buf), .colour = colour};
    cell->columns = text_columns(cell->text);
    table->count++;
}

void table_add(struct table *table, const char *text)
{
    table_add_coloured(table, COLOUR_NONE, text);
}

static void add_buffer(struct table *table, struct strbuf *buf)
{
    table_add(table, strbuf_failed(buf) ? "?" : strbuf_slice(buf).data);
    strbuf_release(buf);
}

void table_add_u64(struct table *table, uint64_t number)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, CELL_MAX);
    strbuf_append_u64(&buf, number);
    add_buffer(table, &buf);
}

void table_add_age(struct table *table, const char *time)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, CELL_MAX);
    text_append_age_of(&buf, time);
    add_buffer(table, &buf);
}

size_t table_rows(const struct table *table)
{
    return table->count / table->column_count;
}

static size_t total_width(const struct table *table, const struct layout *layout)
{
    size_t total = 0;

    for (size_t i = 0; i < table->column_count; i++)
        total += layout->is_out[i] ? 0 : layout->widths[i] + (total > 0 ? GAP : 0);
    return total;
}

static size_t smallest(const struct table *table, size_t column)
{
    size_t head = strlen(table->columns[column].head);

    return table->columns[column].min > head ? table->columns[column].min : head;
}

/* The widest column that may still be cut; the number of columns if there is none. */
static size_t widest(const struct table *table, const struct layout *layout)
{
    size_t found = table->column_count;

    for (size_t i = 0; i < table->column_count; i++) {
        if (layout->is_out[i] || table->columns[i].min == 0 || layout->widths[i] <= smallest(table, i))
            continue;
        if (found == table->column_count || layout->widths[i] > layout->widths[found])
            found = i;
    }
    return found;
}

/* The column that is left out next; the number of columns if all others must stay. */
static size_t next_omitted(const struct table *table, const struct layout *layout)
{
    size_t found = table->column_count;

    for (size_t i = 0; i < table->column_count; i++) {
        if (layout->is_out[i] || table->columns[i].omitted == 0)
            continue;
        if (found == table->column_count || table->columns[i].omitted < table->columns[found].omitted)
            found = i;
    }
    return found;
}

static void fit(const struct table *table, size_t columns, struct layout *layout)
{
    for (;;) {
        size_t total = total_width(table, layout);
        size_t column = widest(table, layout);

        if (total <= columns)
            return;
        if (column < table->column_count) {
            size_t excess = total - columns;
            size_t spare = layout->widths[column] - smallest(table, column);

            /* A quarter at a time, so that several long columns shrink together. */
            layout->widths[column] -= min_u64(excess, spare > 4 ? spare / 4 : 1);
            continue;
        }
        column = next_omitted(table, layout);
        if (column == table->column_count)
            return;
        layout->is_out[column] = true;
    }
}

static void measure(const struct table *table, struct layout *layout)
{
    for (size_t i = 0; i < table->column_count; i++)
        layout->widths[i] = strlen(table->columns[i].head);
    for (size_t i = 0; i < table->count; i++) {
        size_t *width = &layout->widths[i % table->column_count];

        *width = *width > table->cells[i].columns ? *width : table->cells[i].columns;
    }
}

/* The first `columns` characters of a text, or the last ones. */
static struct slice part_of(struct slice text, size_t columns, bool is_end)
{
    size_t skipped = is_end ? text_columns(text) - columns : columns;
    size_t at = 0;

    for (size_t seen = 0; at < text.len; at++) {
        seen += ((unsigned char)text.data[at] & 0xc0) != 0x80;
        if (seen > skipped)
            break;
    }
    return is_end ? (struct slice){text.data + at, text.len - at} : (struct slice){text.data, at};
}

static void append_blanks(struct strbuf *buf, size_t count)
{
    while (count-- > 0 && !strbuf_failed(buf))
        strbuf_append_char(buf, ' ');
}

/* Names differ at their ends, so a long one is cut in its middle. */
static void append_cut(struct strbuf *buf, struct slice text, size_t width)
{
    size_t left = (width - 1) / 2, right = width - 2 - left;
    struct slice first = part_of(text, left, false), last = part_of(text, right, true);

    strbuf_append(buf, first.data, first.len);
    strbuf_append_str(buf, "..");
    strbuf_append(buf, last.data, last.len);
}

static void append_cell(const struct table *table, const struct terminal *terminal, struct strbuf *buf,
                        const struct table_cell *cell, size_t column, const struct layout *layout,
                        bool is_last)
{
    size_t width = layout->widths[column];
    size_t blanks = cell->columns < width ? width - cell->columns : 0;
    struct strbuf cut;

    if (table->columns[column].is_right)
        append_blanks(buf, blanks);
    strbuf_init(&cut, NULL, CELL_MAX);
    if (cell->columns > width)
        append_cut(&cut, cell->text, width);
    else
        strbuf_append(&cut, cell->text.data, cell->text.len);
    terminal_append(terminal, buf, cell->colour, strbuf_slice(&cut));
    strbuf_release(&cut);
    if (is_last)
        return;
    append_blanks(buf, (table->columns[column].is_right ? 0 : blanks) + GAP);
}

static void append_row(const struct table *table, const struct terminal *terminal, struct strbuf *buf,
                       const struct table_cell *cells, const struct layout *layout)
{
    size_t last = 0;

    for (size_t i = 0; i < table->column_count; i++)
        last = layout->is_out[i] ? last : i;
    for (size_t i = 0; i < table->column_count; i++) {
        if (!layout->is_out[i])
            append_cell(table, terminal, buf, &cells[i], i, layout, i == last);
    }
    strbuf_append_char(buf, '\n');
}

void table_write(const struct table *table, const struct terminal *terminal, struct strbuf *buf)
{
    struct table_cell heads[TABLE_COLUMNS_MAX];
    struct layout layout = {0};

    if (table->failed) {
        buf->failed = true;
        return;
    }
    assert(table->count % table->column_count == 0);
    measure(table, &layout);
    if (terminal->columns != SIZE_MAX)
        fit(table, terminal->columns, &layout);
    for (size_t i = 0; i < table->column_count; i++) {
        heads[i] = (struct table_cell){.text = slice_of(table->columns[i].head), .colour = COLOUR_BOLD};
        heads[i].columns = heads[i].text.len;
    }
    append_row(table, terminal, buf, heads, &layout);
    for (size_t i = 0; i < table->count; i += table->column_count)
        append_row(table, terminal, buf, &table->cells[i], &layout);
}
