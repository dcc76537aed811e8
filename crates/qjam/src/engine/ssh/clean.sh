# Removes all that is ours on this host. A folder is ours if its owner is and it looks as we make it.
say hello;
u=$(id -u);
for d in "$home" /var/tmp/qjam-$u /tmp/qjam-$u /dev/shm/qjam-$u; do
  if [ -z "$d" ] || [ -h "$d" ]; then continue; fi;
  if [ -d "$d" ] && [ -O "$d" ]; then :; else continue; fi;
  if [ -d "$d/bin" ] || [ -d "$d/cache" ]; then :; else continue; fi;
  size=$(du -sk "$d" 2>/dev/null | { read size x; echo "$size"; });
  why=$(rm -rf "$d" 2>&1);
  if [ -e "$d" ]; then say left "$d:" $why; else say gone "${size:-0}" "$d"; fi;
done;
# The folder around it may be ours, too; when it holds anything of anybody, it stays.
case "$home" in "$HOME"/.cache/qjam) rmdir "$HOME/.cache" 2>/dev/null;; esac;
say done;
