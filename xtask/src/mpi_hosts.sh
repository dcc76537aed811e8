# Two hosts of network and name namespaces, with an sshd each, and a program on four ranks there.
# hosts.sh FOLDER PROGRAM; by root. Removes what it made, however it ends.
set -eu
folder=$1 program=$2
tag=qm$$
bridge=${tag}x
net=10.$((64 + $$ % 64)).$(($$ / 64 % 256))

clean() {
    set +e
    for host in a b; do
        [ -s "$folder/$host.pid" ] && kill "$(cat "$folder/$host.pid")" 2>/dev/null
        ip netns del "$tag$host" 2>/dev/null
    done
    ip link del "$bridge" 2>/dev/null
}
trap clean EXIT
trap 'exit 1' INT TERM HUP

ip link add "$bridge" type bridge
ip addr add "$net.1/24" dev "$bridge"
ip link set "$bridge" up
mkdir -p /run/sshd
ssh-keygen -q -t ed25519 -N '' -f "$folder/key"
cp "$folder/key.pub" "$folder/authorized"
chmod 600 "$folder/authorized"
last=11
: > "$folder/ssh_config"
: > "$folder/machines"
for host in a b; do
    name=$tag$host
    ip netns add "$name"
    ip link add "$name" type veth peer name eth0 netns "$name"
    ip link set "$name" master "$bridge" up
    ip -n "$name" addr add "$net.$last/24" dev eth0
    ip -n "$name" link set eth0 up
    ip -n "$name" link set lo up
    cat > "$folder/$host.conf" <<END
Port 22
ListenAddress $net.$last
HostKey $folder/key
PidFile $folder/$host.pid
AuthorizedKeysFile $folder/authorized
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
StrictModes no
SetEnv HOME=$folder
END
    ip netns exec "$name" unshare --uts sh -c 'hostname "$0" && exec "$1" -f "$2" -E "$3"' \
        "$name" "$(command -v sshd || echo /usr/sbin/sshd)" "$folder/$host.conf" "$folder/$host.log"
    cat >> "$folder/ssh_config" <<END
Host $name
    HostName $net.$last
END
    echo "$name slots=2" >> "$folder/machines"
    last=$((last + 1))
done
cat >> "$folder/ssh_config" <<END
Host *
    User root
    IdentityFile $folder/key
    IdentitiesOnly yes
    BatchMode yes
    StrictHostKeyChecking no
    UserKnownHostsFile $folder/known
    LogLevel ERROR
END
waited=0
for host in a b; do
    until ssh -F "$folder/ssh_config" -o ConnectTimeout=2 "$tag$host" true 2>/dev/null; do
        waited=$((waited + 1))
        [ "$waited" -lt 50 ] || { cat "$folder/$host.log" >&2; exit 1; }
        sleep 0.1
    done
done
QJAM_RUNS=$folder/runs mpirun --hostfile "$folder/machines" -n 4 --bind-to none \
    --mca plm_rsh_agent "ssh -F $folder/ssh_config" \
    --mca btl_tcp_if_include "$net.0/24" --mca oob_tcp_if_include "$net.0/24" \
    -x QJAM_RUNS "$program"
