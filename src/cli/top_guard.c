/*
 * top_guard.c - a parent that does nothing but wait, and knows how the terminal was.
 *
 * A signal handler that restores the terminal would have to call what no handler may call, and would miss
 * ends that raise no signal. The parent needs no handler: it takes signals one by one, and passes them on.
 */
#include "cli/top_guard.h"

#include <curses.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

#include "cli/cli.h"

enum { MESSAGES_MAX = 256 * 1024 }; /* of what the child wrote to standard error */

struct guard {
    struct termios saved;
    sigset_t old_mask;
    int messages; /* a file in memory */
    pid_t child;
};

void top_guard_signals(sigset_t *ret_signals)
{
    sigemptyset(ret_signals);
    sigaddset(ret_signals, SIGINT);
    sigaddset(ret_signals, SIGTERM);
    sigaddset(ret_signals, SIGHUP);
    sigaddset(ret_signals, SIGQUIT);
    sigaddset(ret_signals, SIGWINCH);
}

/* ---- the terminal ---- */

static const char *capability(const char *name)
{
    const char *text = tigetstr(name);

    return text == (const char *)-1 ? NULL : text;
}

static bool has_terminal(struct guard *guard)
{
    const char *type = getenv("TERM");
    int error;

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &guard->saved) < 0) {
        cli_say("top needs a terminal: standard input or standard output is none");
        return false;
    }
    if (setupterm(NULL, STDOUT_FILENO, &error) != OK) {
        cli_say("top does not know this type of terminal (TERM): %s", type ? type : "it is not set");
        return false;
    }
    if (!capability("cup")) {
        cli_say("this type of terminal (TERM) cannot show a full screen: %s", type ? type : "");
        return false;
    }
    return true;
}

/* Not if the child did it itself: some terminals would move their cursor. */
static void restore_terminal(const struct guard *guard)
{
    static const char *const names[] = {"sgr0", "rmkx", "cnorm", "rmcup"};
    struct termios now;

    if (tcgetattr(STDIN_FILENO, &now) < 0 || now.c_lflag == guard->saved.c_lflag)
        return;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *text = capability(names[i]);

        if (text)
            putp(text);
    }
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &guard->saved);
}

static void print_messages(const struct guard *guard)
{
    char text[4096];
    ssize_t len = 0;

    for (off_t at = 0; at < MESSAGES_MAX; at += len) {
        len = pread(guard->messages, text, sizeof(text), at);
        if (len <= 0)
            return;
        fwrite(text, 1, (size_t)len, stderr);
    }
}

/* ---- the two processes ---- */

static void run_child(const struct guard *guard, pid_t parent, top_guard_fn run, void *arg)
{
    /* Its end tells the child to end, too; it may have come already. */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent ||
        dup2(guard->messages, STDERR_FILENO) < 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        exit(EXIT_FAILED);
    del_curterm(cur_term); /* the child takes the terminal for itself, and would lose ours */
    exit(run(arg));
}

/* Signals for the parent are for the child, which ends by itself. */
static int wait_for(const struct guard *guard, const sigset_t *signals)
{
    int status;

    for (;;) {
        int number = sigwaitinfo(signals, NULL);

        if (number == SIGCHLD && waitpid(guard->child, &status, WNOHANG) == guard->child)
            return status;
        if (number > 0 && number != SIGCHLD && number != SIGWINCH)
            kill(guard->child, number);
    }
}

static int start(struct guard *guard, top_guard_fn run, void *arg)
{
    pid_t parent = getpid();
    sigset_t signals;
    int status;

    top_guard_signals(&signals);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, &guard->old_mask);
    fflush(stdout);
    guard->child = fork();
    if (guard->child == 0)
        run_child(guard, parent, run, arg);
    if (guard->child < 0) {
        cli_say("cannot start a process: %s", strerror(errno));
        sigprocmask(SIG_SETMASK, &guard->old_mask, NULL);
        return EXIT_FAILED;
    }
    status = wait_for(guard, &signals);
    restore_terminal(guard);
    print_messages(guard);
    sigprocmask(SIG_SETMASK, &guard->old_mask, NULL);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    cli_say("top has ended: %s", strsignal(WTERMSIG(status)));
    return EXIT_FAILED;
}

int top_guard_run(top_guard_fn run, void *arg)
{
    struct guard guard = {.messages = -1};
    int status = EXIT_USAGE;

    if (has_terminal(&guard)) {
        guard.messages = memfd_create("smart-router-top", MFD_CLOEXEC);
        if (guard.messages < 0)
            cli_say("no memory for messages: %s", strerror(errno));
        status = guard.messages < 0 ? EXIT_FAILED : start(&guard, run, arg);
    }
    if (guard.messages >= 0)
        close(guard.messages);
    if (cur_term)
        del_curterm(cur_term);
    return status;
}
