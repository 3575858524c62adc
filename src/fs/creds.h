/* SPDX-License-Identifier: MIT */
/* As whom a thread acts on the backing tree.
 *
 * The kernel has checked the caller's permission (default_permissions), but by what it remembers of
 * the owner, which may have changed behind it.  So whatever makes, changes or removes something is
 * the caller's own doing: what is made gets its owner, what needs an owner is asked of the backing
 * filesystem once more, set-id bits are cleared, reserved blocks and quota are kept.  Such a thread
 * has the caller's fsuid and fsgid and lacks CAP_FOWNER, CAP_CHOWN, CAP_FSETID and
 * CAP_SYS_RESOURCE (a caller that has one of them without being root does not get it here); it keeps
 * CAP_DAC_*, because the caller's supplementary groups, by which the kernel may have allowed it, are
 * not known here without reading /proc.
 *
 * A thread stays what it is until an operation needs otherwise, so one user's stream of calls costs
 * no extra system call.  Raw system calls: the C library's wrappers would change every thread. */
#ifndef FS_CREDS_H
#define FS_CREDS_H

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

struct fs;

/* Once per thread: own umask (unshare), capabilities, no supplementary groups. */
void creds_thread_start(void);

void creds_be_daemon(const struct fs *fs);
void creds_be_caller(const struct fs *fs, fuse_req_t req);
/* To make something with this mode (type bits as well): the caller, with their umask.  A regular
 * file that is made set-group-id in a set-group-id directory keeps the bit only for members of the
 * group; nothing else asks for membership or for CAP_FSETID. */
void creds_be_maker(const struct fs *fs, fuse_req_t req, mode_t mode);
/* To take names away, move them, or give a file another: where CAP_FSETID does not matter. */
void creds_be_remover(const struct fs *fs, fuse_req_t req);
/* With the caller's supplementary groups, for the few rules that ask for membership. */
void creds_be_caller_with_groups(const struct fs *fs, fuse_req_t req);
/* To change the data of a file: one that is set-group-id without group execution keeps the bit when
 * a member of the group writes. */
bool creds_membership_matters(fuse_req_t req, const struct stat *st);
void creds_be_writer(const struct fs *fs, fuse_req_t req, bool membership_matters);
/* To write mapped pages, which clears nothing, by a file that these have opened. */
void creds_be_mapper(const struct fs *fs, uid_t uid, gid_t gid);
/* To register a file for kernel passthrough, whose reads and writes are then done with these
 * credentials: the opener's, without CAP_FSETID even for root, as it may be shared with others. */
void creds_be_passthrough(const struct fs *fs, uid_t uid, gid_t gid);

/* The umask of this thread from now on. */
void creds_umask(mode_t mask);

#endif
