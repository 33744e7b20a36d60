/*
 * in_order.c - a random() that counts. Preloaded into redis-benchmark, it makes __rand_int__ name calls one
 * after the other, so that one run can release what the run before it has allocated.
 */
#include <stdlib.h>

long random(void)
{
    static long next;

    return next++;
}
