/*
 * process.c - reads memory, CPU time, descriptors and start time of this process from /proc.
 */
#include "metrics/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/version.h"

struct metrics_process {
    struct metrics_series *resident_bytes;
    struct metrics_series *virtual_bytes;
    struct metrics_series *cpu_seconds;
    struct metrics_series *open_fds;
    struct metrics_series *max_fds;
    struct metrics_series *start_time;
};

/* A family without labels and its one series; NULL without memory. */
static struct metrics_series *process_series(struct metrics *metrics, enum metrics_type type,
                                             const char *name, const char *help)
{
    struct metrics_family *family = metrics_family(metrics, type, name, help, NULL, 0, NULL, 0);

    return family ? metrics_series(family, NULL) : NULL;
}

static int process_add_build_info(struct metrics *metrics)
{
    static const char *const label_names[] = {"version"};
    static const char *const label_values[] = {SMART_ROUTER_VERSION};
    struct metrics_family *family =
        metrics_family(metrics, METRICS_GAUGE, "smart_router_build_info",
                       "Always 1; its label says which version runs.", label_names, 1, NULL, 0);

    if (!family)
        return -ENOMEM;
    metrics_set(metrics_series(family, label_values), 1);
    return 0;
}

/* Reads a small file of /proc as text; false if it cannot. */
static bool process_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return false;
    n = read(fd, text, size - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    return true;
}

struct process_stat {
    unsigned long long user_ticks;
    unsigned long long system_ticks;
    unsigned long long start_ticks; /* since boot */
    unsigned long long virtual_bytes;
    long long resident_pages;
};

static bool process_read_stat(struct process_stat *ret_stat)
{
    char text[1024];
    const char *rest;

    if (!process_read("/proc/self/stat", text, sizeof(text)))
        return false;
    /* The second field is the program's name and may hold anything, also blanks and parentheses. */
    rest = strrchr(text, ')');
    return rest && sscanf(rest + 1,
                          " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d "
                          "%llu %llu %lld",
                          &ret_stat->user_ticks, &ret_stat->system_ticks, &ret_stat->start_ticks,
                          &ret_stat->virtual_bytes, &ret_stat->resident_pages) == 5;
}

/* When the machine was started, in seconds since 1970; 0 if the kernel does not tell. */
static double process_boot_time(void)
{
    FILE *file = fopen("/proc/stat", "re");
    unsigned long long seconds = 0;
    char line[256];

    if (!file)
        return 0;
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "btime %llu", &seconds) == 1)
            break;
    }
    fclose(file);
    return (double)seconds;
}

int metrics_process_new(struct metrics *metrics, struct metrics_process **ret_process)
{
    struct metrics_process *process = calloc(1, sizeof(*process));
    struct process_stat stat;

    assert(metrics);
    assert(ret_process);
    if (!process)
        return -ENOMEM;
    process->resident_bytes = process_series(metrics, METRICS_GAUGE, "process_resident_memory_bytes",
                                             "Resident memory size in bytes.");
    process->virtual_bytes = process_series(metrics, METRICS_GAUGE, "process_virtual_memory_bytes",
                                            "Virtual memory size in bytes.");
    process->cpu_seconds = process_series(metrics, METRICS_COUNTER, "process_cpu_seconds_total",
                                          "User and system CPU time spent in seconds.");
    process->open_fds =
        process_series(metrics, METRICS_GAUGE, "process_open_fds", "Number of open file descriptors.");
    process->max_fds =
        process_series(metrics, METRICS_GAUGE, "process_max_fds", "Maximum number of open file descriptors.");
    process->start_time = process_series(metrics, METRICS_GAUGE, "process_start_time_seconds",
                                         "Start time of the process since 1970 in seconds.");
    if (!process->resident_bytes || !process->virtual_bytes || !process->cpu_seconds || !process->open_fds ||
        !process->max_fds || !process->start_time || process_add_build_info(metrics) < 0) {
        metrics_process_free(process);
        return -ENOMEM;
    }
    if (process_read_stat(&stat))
        metrics_set(process->start_time,
                    process_boot_time() + (double)stat.start_ticks / (double)sysconf(_SC_CLK_TCK));
    *ret_process = process;
    return 0;
}

struct metrics_process *metrics_process_free(struct metrics_process *process)
{
    free(process);
    return NULL;
}

/* -1 if it cannot be told. */
static int64_t process_count_fds(void)
{
    struct stat st;
    DIR *dir;
    int64_t count = 0;

    /* Since Linux 6.2 the size of the directory is the count; reading ten thousand entries would stall us. */
    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
        return st.st_size;
    dir = opendir("/proc/self/fd");
    if (!dir)
        return -1;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count - 1; /* without the one that was just opened to look */
}

void metrics_process_update(struct metrics_process *process)
{
    struct process_stat stat;
    struct rlimit limit;
    int64_t fds = process_count_fds();

    assert(process);
    if (process_read_stat(&stat)) {
        metrics_set(process->resident_bytes, (double)stat.resident_pages * (double)sysconf(_SC_PAGESIZE));
        metrics_set(process->virtual_bytes, (double)stat.virtual_bytes);
        metrics_set(process->cpu_seconds,
                    (double)(stat.user_ticks + stat.system_ticks) / (double)sysconf(_SC_CLK_TCK));
    }
    if (fds >= 0)
        metrics_set(process->open_fds, (double)fds);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        metrics_set(process->max_fds, (double)limit.rlim_cur);
}
