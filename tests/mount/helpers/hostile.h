/* SPDX-License-Identifier: MIT */
#ifndef HELPERS_HOSTILE_H
#define HELPERS_HOSTILE_H

#include <signal.h>

void die(const char *what) __attribute__((noreturn));
double now_s(void);

/* Ways to move data (hostile_data.c): each moves all of it and prints "BYTES SECONDS". */
int mmap_copy(char **arg);
int mmap_read(char **arg);
int mmap_write(char **arg);
int copy_range(char **arg);
int clone_file(char **arg);
int splice_read(char **arg);
int send_file(char **arg);
int shared_write(char **arg);
int aio_read_file(char **arg);
int uring_read(char **arg); /* exits 77 where the kernel has no io_uring for us */

/* Signals in storms against itself while it reads (hostile_data.c): prints failed reads. */
int storm(char **arg);

#endif
