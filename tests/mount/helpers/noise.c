/* SPDX-License-Identifier: MIT */
/* How late this machine is by itself: sleeps a millisecond at a time until SIGTERM, then prints by how many ms a sleep took
 * longer than that: at most, and on average.  Run it beside what is being timed. */
#include <signal.h>
#include <stdio.h>
#include <time.h>

static volatile sig_atomic_t ended;

static void on_term(int sig)
{
	(void)sig;
	ended = 1;
}

static double now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

int main(void)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	double worst = 0, sum = 0;
	unsigned n = 0;
	signal(SIGTERM, on_term);
	while (!ended) {
		double began = now_ms();
		nanosleep(&nap, NULL);
		double late = now_ms() - began - 1;
		if (late > worst)
			worst = late;
		sum += late;
		n++;
	}
	printf("%.1f %.2f\n", worst, n ? sum / n : 0);
	return 0;
}
