// quota: "worker" (nice 0) computes 30 ms on CPU 1; in the third passage its cgroup may use 10 ms of each 100 ms
#include "markers.h"
#include <sys/stat.h>
static int put(const char *file, const char *text) {
  int fd = open(file, O_WRONLY), bad = fd < 0 || write(fd, text, strlen(text)) < 0;
  if (bad) perror(file);
  close(fd);
  return bad;
}
// cgroup v1 has the cpu controller in a hierarchy of its own
static int v1(void) { return access("/sys/fs/cgroup/cpu/tasks", F_OK) == 0; }
static const char *group(void) { return v1() ? "/sys/fs/cgroup/cpu/lathunt_quota" : "/sys/fs/cgroup/lathunt_quota"; }
static void in(const char *file, const char *text) { char path[128]; snprintf(path, sizeof path, "%s/%s", group(), file); put(path, text); }
static void limit(void) {
  if (!v1()) put("/sys/fs/cgroup/cgroup.subtree_control", "+cpu");
  mkdir(group(), 0755);
  if (v1()) { in("cpu.cfs_period_us", "100000"); in("cpu.cfs_quota_us", "10000"); in("tasks", "0"); }
  else { in("cpu.max", "10000 100000"); in("cgroup.procs", "0"); }
}
static void release(void) { put(v1() ? "/sys/fs/cgroup/cpu/tasks" : "/sys/fs/cgroup/cgroup.procs", "0"); rmdir(group()); }
int main(void) {
  pin(1); who("worker");
  for (int i = 0; i < 3; i++) {
    if (i == 2) limit();
    usleep(20000);
    mark(600, i); spin_cpu(30 * MS); mark(601, i);
  }
  release();
  return 0;
}
