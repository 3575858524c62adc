/* SPDX-License-Identifier: MIT */
/* Deletes the tree of a volume.  Containers control its contents, so links are not followed and mounts not entered. */
#ifndef CTL_VOLUME_TREE_H
#define CTL_VOLUME_TREE_H

/* Deletes what is in the directory `name` of dir_fd, and the directory.  Returns 0, or -errno of the first
 * failure; it deletes everything else even so. */
int volume_tree_delete(int dir_fd, const char *name);

#endif
