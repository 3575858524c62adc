/* SPDX-License-Identifier: MIT */
/* The identity with which a thread accesses the source.
 *
 * Every call to the backing tree is made as its caller: with the caller's fsuid and fsgid, and
 * without root's capabilities unless the caller is root.  creds_begin does that for each request
 * before anything else is done with it.  So a source that checks identity itself (NFS, CIFS, FUSE)
 * sees the right user, new files get the right owner, the backing filesystem decides what only an
 * owner may do, set-id bits are cleared, and reserved blocks and quotas are respected.  Messages
 * without a caller are carried out as the user who opened the file.
 *
 * Supplementary groups.  The kernel's message does not carry them, and reading them from /proc for
 * each request would cost more than the request.
 *   - Permissions of a local filesystem are checked by the kernel, which has already checked the
 *     caller including groups and capabilities (default_permissions).  So a thread that acts as a
 *     caller has CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH instead of the caller's groups.  Calls
 *     that check membership by other rules (chgrp, set-group-id bits) get the groups.
 *   - A source that checks identity itself does not consider our capabilities, so each call to it
 *     is made with the caller's groups, which may be a second old.
 *
 * A few calls need more rights than the caller has, because the kernel has checked the caller by a
 * rule that the source cannot know.  They get the capability that they need and keep the caller's
 * identity.
 *
 * A thread remembers its identity, so that consecutive calls of one user cost no extra system calls.
 * Raw system calls are used because the C library's wrappers would change every thread.
 *
 * Errors  0 or -EIO: the identity could not be changed, and the request must fail, since the thread
 *         may still act as another user.  Logged at most once per minute. */
#ifndef FS_CREDS_H
#define FS_CREDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct fs;
struct request;

/* Call once per thread. */
void creds_thread_start(void);
void creds_thread_stop(void);

/* True: this filesystem (statfs f_type) checks identity itself.  Unknown ones are assumed to. */
bool creds_source_checks(uint64_t fs_type);

/* The caller of a request.  Does nothing for requests that have none: their operations make no
 * backing call, or choose the opener of the file. */
int creds_begin(const struct request *req);

/* The rest is for operations that need other rights than creds_begin gives. */

/* To change something: root's thread has CAP_FSETID, which creds_begin does not promise. */
int creds_be_changer(const struct fs *fs, const struct request *req);
/* For attributes and ioctl: without CAP_SYS_ADMIN, which would make a difference there and which a
 * thread may still have from a registration (see creds_be_registrar). */
int creds_be_plain_caller(const struct fs *fs, const struct request *req);
/* With the caller's supplementary groups, as they are now, whatever the source. */
int creds_be_member(const struct fs *fs, const struct request *req);
/* To make something with this mode (type bits as well): with the caller's umask.  A regular file
 * that is made set-group-id in a set-group-id directory keeps the bit only for members of the group;
 * nothing else asks for membership or for CAP_FSETID. */
int creds_be_maker(const struct fs *fs, const struct request *req, mode_t mode);
/* To change the data of a file: one that is set-group-id without group execution keeps the bit when
 * a member of the group writes. */
bool creds_membership_matters(const struct request *req, const struct stat *st);
int creds_be_writer(const struct fs *fs, const struct request *req, bool membership_matters);
/* With CAP_FOWNER and CAP_FSETID: for changes that accompany a write.  Any writer may make them,
 * but chown and utimes allow them only to the owner.  The write itself decides which set-id bits
 * are cleared. */
int creds_be_toucher(const struct fs *fs, const struct request *req);
/* With CAP_SETFCAP: for file capabilities, which the kernel removes on behalf of a writer. */
int creds_be_capability_setter(const struct fs *fs, const struct request *req);

/* Become the opener of a file: to close it. */
int creds_be_opener(const struct fs *fs, uid_t uid, gid_t gid);
/* The same with CAP_FSETID: to write mapped pages, which clears no bits. */
int creds_be_mapper(const struct fs *fs, uid_t uid, gid_t gid);
/* The same with CAP_SYS_ADMIN: to register a file for kernel passthrough, which then reads and
 * writes with these credentials, and to unregister it.  Without CAP_FSETID even for root, because
 * a registration may be shared with others. */
int creds_be_registrar(const struct fs *fs, uid_t uid, gid_t gid);

#endif
