# Makes the network of one test host and starts the host in it. Runs as root on our own machine, once per host; what is
# left of an earlier one of the same name is gone by then. hosts/mod.rs starts it with these variables:
#   dir      the folder of all hosts          name     of this host
#   netns    its network namespace            link     our end of its cable (for `inner`: the jump host's)
#   bridge   where our end is plugged in      outer    name of the namespace in which our end lies, or empty
#   address  its own, with prefix length      peer     address of our end, where it is not plugged into the bridge
#   hardware address of its end of the cable
#   kind     plain, only22, slow, far, i686   user, uid  who logs in there
#   python_prefix, python_version, python_packages  a Python for it, or empty; see boot.sh
set -eu

ip netns add "$netns"
ip -n "$netns" link set lo up
if [ "$kind" = far ]; then
    # Two taps instead of a cable, and a program that carries frames between them a little later.
    setsid -f ip netns exec "$netns" python3 "$dir/delay.py" "$link" eth0 $$ </dev/null >"$dir/$name/delay.log" 2>&1
    tries=0
    until [ -e "/sys/class/net/$link" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || { cat "$dir/$name/delay.log" >&2; exit 1; }
        sleep 0.05
    done
elif [ -n "$outer" ]; then
    ip -n "$outer" link add "$link" type veth peer name eth0 netns "$netns"
    ip -n "$outer" address add "$peer" dev "$link"
    ip -n "$outer" link set "$link" up
else
    ip link add "$link" type veth peer name eth0 netns "$netns"
fi
[ -n "$outer" ] || ip link set "$link" master "$bridge" up
# A host that is made again has the hardware address it had: its neighbours remember it.
ip -n "$netns" link set eth0 address "$hardware"
ip -n "$netns" address add "$address" dev eth0
ip -n "$netns" link set eth0 up

case $kind in
slow)
    rate="root tbf rate 100mbit burst 256kb latency 50ms"
    tc qdisc add dev "$link" $rate
    tc -n "$netns" qdisc add dev eth0 $rate
    ;;
only22)
    ip netns exec "$netns" nft -f - <<'RULES'
table inet only22 {
    chain input { type filter hook input priority 0; policy drop; iif lo accept; tcp dport 22 accept; }
    chain output { type filter hook output priority 0; policy drop; oif lo accept; tcp sport 22 accept; }
}
RULES
    ;;
esac

chown "$uid:$uid" "$dir/$name/home"
chmod 700 "$dir/$name/home"
# Under this personality `uname -m` says i686 to everything on the host.
personality=
[ "$kind" != i686 ] || personality="setarch i686"
# Its own session: Ctrl-C in the terminal in which hosts were made is not meant for them.
setsid -f $personality ip netns exec "$netns" unshare --mount --uts --ipc --pid --fork \
    sh "$dir/boot.sh" "$dir/$name" "$name" "$user" \
    "$python_prefix" "$python_version" "$python_packages" "$uid" </dev/null >"$dir/$name/log" 2>&1
