# Becomes a test host: process 1 of new namespaces turns them into a small machine of its own and then into sshd.
#
# Nothing of our machine is seen there but the system's libraries, read-only: /usr/bin has POSIX utilities only, and
# /etc one user. All mounts are in this process's own namespace, so they go when it does.
set -eu
umask 022
dir=$1 name=$2 user=$3
new=$dir/root

# Before /usr/bin is another one.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
hostname "$name"
mount -t tmpfs -o mode=755,size=16m root "$new"
cd "$new"
mkdir -p usr dev proc sys run/sshd tmp var/tmp etc "home/$user" old
for link in bin sbin lib lib32 lib64 libx32; do
    [ ! -L "/$link" ] || cp -P "/$link" .
done
mount --bind /usr usr
mount -o remount,bind,ro usr
chmod 755 "$dir/bin"
mount --bind "$dir/bin" usr/bin
mount -t tmpfs -o mode=755,size=1m local usr/local
mount --bind /dev dev
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts dev/pts
mount --bind dev/pts/ptmx dev/ptmx
mount -t tmpfs -o mode=1777 shm dev/shm
mount -t proc proc proc
mount -t sysfs -o ro sys sys
mount -t tmpfs -o mode=1777 tmp tmp
mount -t tmpfs -o mode=1777 var-tmp var/tmp
mount --bind "$dir/home" "home/$user"
cp -R "$dir/etc/." etc/
chown -R 0:0 etc
chmod -R u=rwX,go=rX etc
chmod 600 etc/ssh/host_key

pivot_root . old
cd /
umount -l old
rmdir old
exec /usr/sbin/sshd -D -e -f /etc/ssh/sshd_config
