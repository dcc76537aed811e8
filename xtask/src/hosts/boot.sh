# Becomes a test host: process 1 of new namespaces turns them into a small machine of its own and then into sshd.
#
# Nothing of our machine is seen there but the system's libraries, read-only: /usr/bin has POSIX utilities only, and
# /etc one user. All mounts are in this process's own namespace, so they go when it does.
set -eu
umask 022
dir=$1 name=$2 user=$3 python_prefix=$4 python_version=$5 python_packages=$6 uid=$7
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
if [ -n "$python_prefix" ]; then
    mkdir -p "$new$python_prefix"
    mount --bind "$python_prefix" "$new$python_prefix"
    mount -o remount,bind,ro "$new$python_prefix"
fi
if [ -n "$python_version" ]; then
    # Whatever people have installed into our own interpreter is not there.
    for packages in "$new$python_prefix/lib/python$python_version/site-packages" usr/lib/python3/dist-packages; do
        [ ! -d "$packages" ] || mount -t tmpfs -o ro,mode=755,size=4k packages "$packages"
    done
fi
if [ -n "$python_packages" ]; then
    # Of our own packages only this one: what else is there has nothing to do on a host.
    site=home/$user/.local/lib/python$python_version/site-packages
    for package in numpy numpy.libs; do
        [ -d "$python_packages/$package" ] || continue
        mkdir -p "$site/$package"
        mount --bind "$python_packages/$package" "$site/$package"
        mount -o remount,bind,ro "$site/$package"
    done
    chown "$uid:$uid" "home/$user/.local" "home/$user/.local/lib" "${site%/*}" "$site"
fi
cp -R "$dir/etc/." etc/
chown -R 0:0 etc
chmod -R u=rwX,go=rX etc
chmod 600 etc/ssh/host_key

pivot_root . old
cd /
umount -l old
rmdir old
exec /usr/sbin/sshd -D -e -f /etc/ssh/sshd_config
