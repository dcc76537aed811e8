# Removes the test hosts whose names begin with $1, or, with $2, the one of exactly that name: processes, namespaces,
# cables. Runs as root on our own machine and asks only the kernel what is there, so that it does not matter how far
# whoever made them had come.
set -eu
for path in /run/netns/"$1"*; do
    netns=${path##*/}
    [ -e "$path" ] && [ "${2:-$netns}" = "$netns" ] || continue
    # Whoever was just being born when the others were listed is found by another look.
    while pids=$(ip netns pids "$netns" 2>/dev/null) && [ -n "$pids" ]; do
        kill -s KILL $pids 2>/dev/null || true
        sleep 0.01
    done
    ip netns delete "$netns"
done
# The kernel removes cables some time after the namespace they led into; but the name may be wanted again at once.
for path in /sys/class/net/"$1"*; do
    link=${path##*/}
    [ -e "$path" ] && [ "${2:-$link}" = "$link" ] || continue
    ip link delete "$link" 2>/dev/null || [ ! -e "$path" ]
done
# `ip netns add` made these for the first namespace of the machine. They stay while somebody has one.
if [ -z "${2:-}" ] && [ -d /run/netns ] && [ -z "$(ls /run/netns)" ]; then
    umount /run/netns 2>/dev/null || true
    rmdir /run/netns 2>/dev/null || true
fi
