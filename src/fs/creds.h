/* SPDX-License-Identifier: MIT */
/* As whom a thread acts on the backing tree.
 *
 * Every call to the backing tree is made as its caller: with the caller's fsuid and fsgid, and
 * without root's capabilities unless the caller is root.  creds_begin does that for each request
 * before anything else is done with it.  So a source that checks identity itself (NFS, CIFS, FUSE)
 * sees the right user, what is made gets its owner, what needs an owner is asked of the backing
 * filesystem, set-id bits are cleared, reserved blocks and quotas are kept.  Messages without a
 * caller act as the one who opened the file.
 *
 * Supplementary groups.  The kernel's message does not carry them, and reading them from /proc for
 * each request would cost more than the request.
 *   - A local filesystem is checked by the kernel, which has checked the caller already, groups and
 *     capabilities included (default_permissions).  There a caller's thread has no groups but keeps
 *     CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH in their place.  Calls that ask for membership by
 *     other rules (chgrp, set-group-id bits) get the groups.
 *   - A source that checks identity itself does not look at our capabilities.  There each call is
 *     made with the caller's groups, which may be a second old.
 *
 * A few calls need more than the caller has, because the kernel outside has checked the caller by a
 * rule that the backing filesystem cannot know.  They get the capability that they need, and keep
 * the caller's identity.
 *
 * A thread remembers what it is, so one user's stream of calls costs no extra system call.  Raw
 * system calls: the C library's wrappers would change every thread.
 *
 * Errors  0 or -EIO: the identity could not be changed.  Then the request must fail, since the thread
 *         may still be somebody else.  Logged once per minute at the most. */
#ifndef FS_CREDS_H
#define FS_CREDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct fs;
struct request;

/* Once per thread. */
void creds_thread_start(void);
void creds_thread_stop(void);

/* Does this filesystem (statfs f_type) check by itself who is asking?  Unknown ones are taken to. */
bool creds_source_checks(uint64_t fs_type);

/* The caller of a request.  Does nothing for requests that have none: their operations make no
 * backing call, or choose the opener of the file. */
int creds_begin(const struct request *req);

/* The rest is for operations that need other rights than those of creds_begin. */

/* To change something: root has CAP_FSETID here, which creds_begin does not promise. */
int creds_be_changer(const struct fs *fs, const struct request *req);
/* Where CAP_SYS_ADMIN would make a difference, which a caller's thread may have left from a registration
 * (see creds_be_registrar): attributes and ioctl. */
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
/* With CAP_FOWNER and CAP_FSETID: for changes that come with writing, which any writer may make, but chown
 * and utimes allow to the owner only.  What set-id bits must go is decided by the write itself. */
int creds_be_toucher(const struct fs *fs, const struct request *req);
/* With CAP_SETFCAP: for file capabilities, which the kernel takes away on behalf of a writer. */
int creds_be_capability_setter(const struct fs *fs, const struct request *req);

/* Who has opened a file: to close it. */
int creds_be_opener(const struct fs *fs, uid_t uid, gid_t gid);
/* The same with CAP_FSETID: to write mapped pages, which clears nothing. */
int creds_be_mapper(const struct fs *fs, uid_t uid, gid_t gid);
/* The same with CAP_SYS_ADMIN: to register a file for kernel passthrough, whose reads and writes are
 * then done with these credentials, and to unregister it.  Without CAP_FSETID even for root, as the
 * registration may be shared with others. */
int creds_be_registrar(const struct fs *fs, uid_t uid, gid_t gid);

#endif
