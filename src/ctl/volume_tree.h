/* SPDX-License-Identifier: MIT */
/* Deleting the tree of a volume.  What is in it was made by containers: links are not followed, mounts not entered. */
#ifndef CTL_VOLUME_TREE_H
#define CTL_VOLUME_TREE_H

/* Deletes what is in the directory `name` of dir_fd, and the directory.  0 or -errno of the first thing that stayed;
 * everything else is gone all the same. */
int volume_tree_delete(int dir_fd, const char *name);

#endif
